"""What the tests of puzzles share: a solution with edits, and what is said of it."""

from mathlib.workshop import grade
from mathlib.workshop.steps import Fault


def edited(name, *edits):
    """The reference with pieces of its text replaced, each of which stands there once."""
    text = grade.find(name).solution
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in\n{text}"
        text = text.replace(old, new)
    return text


def said(name, text):
    """What is wrong first, as a report has it; "" if nothing is.  Later tests are not run."""
    puzzle = grade.find(name)
    try:
        defined = grade.compiled(puzzle, text)
    except Fault as fault:
        return str(fault)
    results = (grade.tried(trial, defined).wrong for trial in puzzle.trials())
    return next(filter(None, results), "")


def assert_right(name, text):
    assert said(name, text) == ""


def assert_wrong(name, edits, words):
    """A mistake, and the words that name it."""
    found = said(name, edited(name, *edits))
    assert words in found, found or "it passes"


def assert_case(name, words):
    """A program of the clinic shows its fault in these words, and its edit mends it."""
    case = grade.find(name)
    found = said(name, case.start)
    assert words in found, found
    assert case.thread and said(name, case.solution) == ""
    changed = [a for a in case.start.splitlines() if a not in case.solution.splitlines()]
    assert 1 <= len(changed) <= 4, "one fault, and not much else"


def assert_mend(name, edit, words):
    """Another mend, and what is said of it; "": right."""
    case = grade.find(name)
    assert case.start.count(edit[0]) == 1
    found = said(name, case.start.replace(*edit))
    assert found == words if not words else words in found, found
