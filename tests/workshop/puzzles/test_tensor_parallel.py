"""A tensor-parallel MLP: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    y = await all_reduce(me, (inner * inner) @ down)",
        "    y = (inner * inner) @ down",
        "rank 0 still has its own part, in y",
    ),
    (
        "    dx = await all_reduce(me, dinner @ up)",
        "    dx = dinner @ up",
        "rank 0 still has its own part, in dx",
    ),
    (
        "    y = await all_reduce(me, (inner * inner) @ down)",
        "    y = await all_reduce(me, (inner * inner) @ down) / me.size",
        "rank 0 has the mean of all parts: expected their sum, in y",
    ),
    (
        "    dup = dinner.T @ x",
        "    dup = await all_reduce(me, dinner.T @ x)",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in dup",
    ),
    (
        "    ddown = (inner * inner).T @ dy",
        "    ddown = await all_reduce(me, (inner * inner).T @ dy)",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in ddown",
    ),
    (
        "    inner = x @ up.T",
        "    inner = await all_reduce(me, x @ up.T)",
        "rank 0 is wrong in 6 of 6 numbers, first in row 0, in y",
    ),
    (
        "    inner = x @ up.T",
        "    inner = x @ up",
        "rank 0 is wrong in 6 of 6 numbers, first in row 0, in y",
    ),
    (
        "    dinner = (dy @ down.T) * inner * 2",
        "    dinner = (await all_reduce(me, dy) @ down.T) * inner * 2",
        "rank 0 has 2 times the part that is expected, in dx",
    ),
    (
        "    dinner = (dy @ down.T) * inner * 2",
        "    dinner = (dy @ down.T) * inner",
        "rank 0 has the mean of all parts: expected their sum, in dx",
    ),
    (
        "    return y, dx, dup, ddown",
        "    return y, dx",
        "rank 0 returns (tensor of 3 x 2, tensor of 3 x 2): expected y, dx, dup, ddown",
    ),
    (
        "    return y, dx, dup, ddown",
        "    return y, dx, ddown, dup",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in dup",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("tensor-parallel", [(old, new)], words)
