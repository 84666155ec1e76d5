"""Grading: what is right, what is over its budget, what cannot be read."""

import ast
import re
from pathlib import Path

import pytest
from mutants_of import mutants
from solutions import edited, said

from mathlib.checks import InputError
from mathlib.workshop import grade

EQUIVALENT = {  # mutants that are right as well, and why
    "accumulate": {
        "line 3: the other way round": "a sum in another order",
        "line 4: one more": "inputs and targets are as many",
    },
    "buckets": {"line 12: the other way round": "layers of a bucket in another order"},
    "checkpoint": {"line 12: comparison": "an empty piece, joined to others"},
    "ring-attention": {"line 2: order": "the other way round the ring"},
    "scatter-gather": {
        f"line {line}: the other way round": "messages to all others in another order"
        for line in (4, 7, 9)
    },
    "tied": {"line 4: order": "0 and stages - 1 in another order"},
    "zero2": {
        f"line {line}: the other way round": "micro-batches, or layers, in another order"
        for line in (3, 6)
    },
    "zigzag": {
        "line 3: order": "the late piece first",
        "line 4: order": "the other way round the ring",
    },
}
NAMED = re.compile(  # by whom, or how far over what
    r"((step|round|layer) \d+: |momentum: )?(rank \d|stage \d|token \d+ is)"
    r"|deadlock: rank|right, but"
)


def test_an_endless_loop_is_counted_out_once():
    for loop in ("pass", "await me.send((me.rank + 1) % me.size, x)"):
        text = f"async def program(me, x):\n    while True:\n        {loop}"
        (only,) = grade.graded("ring", text).results
        assert only.endless and "an endless loop?" in only.wrong
    assert len(grade.graded("ring", "async def program(me, x):\n    1 / 0").results) == 4


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


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("name", [one.name for one in grade.every() if not one.thread])
def test_mechanical_mutants_of_a_solution_are_wrong_and_it_is_said_where(name):
    """Signs, numbers, ranks, branches, turns, exchanges left out: each is noticed."""
    found = {what: said(name, text) for what, text in mutants(grade.find(name).solution)}
    assert {what for what, words in found.items() if not words} == {*EQUIVALENT.get(name, ())}
    assert [words for words in found.values() if words and not NAMED.match(words)] == []
    assert len(found) - len(EQUIVALENT.get(name, ())) + by_hand(name) >= 20


def by_hand(name):
    """How many wrong programs the puzzle's own test has."""
    file = Path(__file__).parent / "puzzles" / f"test_{name.replace('-', '_')}.py"
    nodes = ast.parse(file.read_text("utf-8")).body
    return next(len(n.value.elts) for n in nodes if ast.unparse(n).startswith("WRONG = "))


ODD = ["None", "1", "'x'", "[]", "[None, None]", "(1, 2)", "[[1], [2]]", "me", "drawn", "[drawn]"]


@pytest.mark.parametrize("name", grade.names())
def test_whatever_comes_out_is_told_and_stops_nothing(name):
    for odd in ODD:
        text = "async def program(me, *given):\n    drawn = zeros(5)\n    return " + odd
        words = said(name, text + text.replace("def program", "\n\nasync def save"))
        assert "\n" not in words and words
