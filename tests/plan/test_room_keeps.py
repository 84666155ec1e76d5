"""What a program keeps is found by its name, or is what is usual."""

import pytest

from mathlib.checks import InputError
from mathlib.plan.room import Keeps, find_keeps
from mathlib.specs import table


def test_every_row_is_of_a_program_and_says_where_it_was_read() -> None:
    programs = table("calibrations")["programs"]
    for name, row in table("keeps").items():
        assert name == "usual" or find_keeps(name) != Keeps(), name
        assert name == "usual" or name in programs
        assert row["source"] and row["date"]


def test_where_nobody_read_the_code_the_usual_is_taken() -> None:
    assert find_keeps() == find_keeps("deepspeed") == Keeps()
    with pytest.raises(InputError, match="program = 'nobody'"):
        find_keeps("nobody")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"recipe": "butter"}, "recipe = 'butter'"),
        ({"logit": 0}, "logit = 0"),
        ({"norm": -1}, "norm = -1"),
        ({"shared_logit": -1}, "shared_logit = -1"),
        ({"rounded": 1}, "rounded = 1"),
        ({"selective": "queries"}, "selective = 'queries'"),
        ({"whole_logits": 1}, "whole_logits = 1"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        Keeps(**changes)
