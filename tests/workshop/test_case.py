"""A case: a program with a fault, and the edit that mends it."""

import pytest

from mathlib.checks import InputError
from mathlib.workshop import sketch
from mathlib.workshop.case import case, compared
from mathlib.workshop.grade import tried
from mathlib.workshop.puzzle import CLINIC
from mathlib.workshop.tensor import vector


async def own_sum(me, x):
    return x


def made(edit):
    drawn = sketch.fault(2, lambda r: [], lambda r: [])
    texts = {"title": "", "chapter": "", "task": "", "hints": ("",) * 3}
    thread = "owner/name#7"
    return case(own_sum, thread=thread, edit=edit, sketch=drawn, trials=list, **texts)


def test_a_case_has_its_program_as_the_start_and_the_edit_as_the_solution():
    found = made(("return x", "return await all_reduce(me, x)"))
    assert (found.name, found.grade) == ("own-sum", CLINIC)
    assert found.start == "async def program(me, x):\n    return x\n"
    assert found.solution == "async def program(me, x):\n    return await all_reduce(me, x)\n"
    assert found.address == "https://github.com/owner/name/issues/7"


@pytest.mark.parametrize("old", ["return y", "x"])
def test_an_edit_stands_in_the_program_once(old):
    with pytest.raises(InputError, match="own_sum: .* expected once"):
        made((old, ""))


def test_each_rank_has_its_own_wanted_result_and_known_mistakes():
    parts = [vector([1]), vector([2])]
    trial = compared("two", lambda me: [me], parts, {"has nothing": [vector([0])] * 2})

    async def right(me, _):
        return vector([me.rank + 1])

    async def wrong(me, _):
        return vector([1 - me.rank])

    assert tried(trial, {"program": right}).wrong == ""
    assert tried(trial, {"program": wrong}).wrong == "rank 1 has nothing"
