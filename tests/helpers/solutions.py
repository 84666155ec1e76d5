"""What the tests of puzzles share: a solution with edits, and what is said of it."""

from mathlib.workshop import grade


def edited(name, *edits):
    """The reference with pieces of its text replaced, each of which stands there once."""
    text = grade.find(name).solution
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in\n{text}"
        text = text.replace(old, new)
    return text


def said(name, text):
    """What is wrong first; "" if nothing is."""
    return grade.graded(name, text).first


def assert_right(name, text):
    assert said(name, text) == ""


def assert_wrong(name, edits, words):
    """A mistake, and the words that name it."""
    found = said(name, edited(name, *edits))
    assert words in found, found or "it passes"
