"""Grading: what is right, what is over its budget, what cannot be read."""

import pytest
from mutants_of import mutants
from solutions import edited, said

from mathlib.checks import InputError
from mathlib.workshop import grade

EQUIVALENT = {  # how many of a solution's mutants are right as well
    "accumulate": 1,  # inputs and targets are as many
    "checkpoint": 1,  # an empty piece, joined to others
    "ring-attention": 1,  # the other way round the ring
    "tied": 1,  # 0 and stages - 1 in the other order
    "zero2": 1,  # shards of layers are of one size
    "zigzag": 2,  # the late piece first; the other way round
}


def test_a_report_has_every_test_and_what_it_took():
    report = grade.graded("ring", edited("ring"))
    assert report.right and str(report) == "right" and len(report.results) == 4
    first = report.results[0]
    assert first.took["bytes sent"] == first.budgets[0].most == 72
    assert first.took["time"] == first.budgets[1].most == 24


def test_it_comes_out_the_same_every_time():
    text = edited("pipeline")
    assert grade.graded("pipeline", text) == grade.graded("pipeline", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no program: expected `async def program(me, ...)`"),
        ("def program(me, gradient):\n    return gradient", "expected `async def program(me"),
        ("async def program(me): pass", "takes 1 positional argument but 2 were given"),
        ("x = 1 +", "the file, line 1: SyntaxError: invalid syntax"),
        ("while True: pass", "the file has done 1,000,000 steps and is in line 1"),
        ("1 / 0", "the file, line 1: ZeroDivisionError: division by zero"),
        ("async def program(me, gradient): return", "rank 0 returns nothing: expected a tensor"),
    ],
)
def test_what_is_no_program_is_said(text, words):
    assert words in said("ring", text)


def test_a_puzzle_is_found_by_name():
    assert grade.find("scatter-gather").title == "Reduce-scatter and all-gather"
    with pytest.raises(InputError, match="did you mean ring"):
        grade.find("rnig")


@pytest.mark.parametrize("name", grade.names())
def test_mechanical_mutants_of_a_solution_are_wrong(name):
    """Signs, numbers, ranks, branches, exchanges left out: each is noticed, and none stops it."""
    passed = [what for what, text in mutants(grade.find(name).solution) if not said(name, text)]
    assert len(passed) == EQUIVALENT.get(name, 0), passed
