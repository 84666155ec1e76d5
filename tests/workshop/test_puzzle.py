"""Every puzzle has what belongs to it."""

import re
from pathlib import Path

import pytest

import mathlib
from mathlib.workshop import grade
from mathlib.workshop.puzzle import CLINIC, GRADES, MEASURES, text_of

PUZZLES = grade.every()
SOURCES = [path.read_text("utf-8") for path in Path(mathlib.__file__).parent.rglob("*.py")]
CHAPTERS = set(re.findall(r"Chapter: (\w+)", "".join(SOURCES)))  # those that formulas name


def test_there_are_puzzles_of_every_grade_and_their_names_are_their_files():
    cases = [one for one in PUZZLES if one.thread]
    assert len(PUZZLES) - len(cases) >= 16 and {one.grade for one in PUZZLES} == set(GRADES)
    assert len(cases) == 20 == len({one.address for one in cases})
    assert all(one.grade == CLINIC for one in cases)
    assert [one.name for one in PUZZLES] != grade.names() == sorted(one.name for one in PUZZLES)


@pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda one: one.name)
def test_a_puzzle_has_its_parts(puzzle):
    assert puzzle.chapter in CHAPTERS
    assert len(puzzle.sentences) in ((3, 4, 5) if puzzle.thread else (5,)), puzzle.sentences
    assert len(set(puzzle.hints)) == 3 and all(hint[-1] in ".?" for hint in puzzle.hints)
    trials = puzzle.trials()
    assert len({trial.says for trial in trials}) == len(trials) >= (2 if puzzle.thread else 3)
    budgets = [one for trial in trials for one in trial.budgets] or [True for t in trials if t.then]
    assert (budgets or puzzle.thread) and all(one is True or one.of in MEASURES for one in budgets)
    for text in (puzzle.start, puzzle.solution):
        assert not re.search(r"\b(start|solution)_?\w*\(", text) and "import" not in text
        assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda one: one.name)
def test_a_start_runs_and_is_wrong_in_the_subject_s_words(puzzle):
    report = grade.graded(puzzle.name, puzzle.start)
    hangs = "deadlock" in report.first
    assert report.first and ", line " not in report.first and (puzzle.thread or not hangs)
    assert report.results[0].took or hangs, "it runs to its end"


@pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda one: one.name)
def test_a_solution_is_right_and_needs_nearly_all_of_its_budgets(puzzle):
    """Bytes and seconds are the formula's within a tenth, numbers within a quarter."""
    report = grade.graded(puzzle.name, puzzle.solution)
    assert report.right, report.first
    budgets = {one.of for result in report.results for one in result.budgets}
    for of in budgets:
        used = [r.took[of] / one.most for r in report.results for one in r.budgets if one.of == of]
        assert max(used) > (0.75 if of == "live numbers" else 0.9), (of, used)


def test_a_program_s_text_has_its_name():
    text = text_of(start, solution_save)
    assert text == "async def program(me):\n    return me\n\n\ndef save(me):\n    return me\n"


async def start(me):
    return me


def solution_save(me):
    return me
