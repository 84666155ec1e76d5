"""Sequence parallelism: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    dscale = await all_reduce(me, (dnormed * x).sum())",
        "    dscale = (dnormed * x).sum()",
        "rank 0 still has its own part, in dscale",
    ),
    (
        "    dscale = await all_reduce(me, (dnormed * x).sum())",
        "    dscale = await all_reduce(me, (dnormed * x).sum()) / me.size",
        "rank 0 has the mean of all parts: expected their sum, in dscale",
    ),
    (
        "    y = await reduce_scatter(me, (inner * inner) @ down)",
        "    y = ((inner * inner) @ down).shards(me.size)[me.rank]",
        "rank 0 still has its own part, in y",
    ),
    (
        "    y = await reduce_scatter(me, (inner * inner) @ down)",
        "    y = await all_reduce(me, (inner * inner) @ down)",
        "rank 0 returns a tensor of 4 x 2: expected a tensor of 2 x 2, in y",
    ),
    (
        "    dnormed = await reduce_scatter(me, dinner @ up)",
        "    dnormed = (dinner @ up).shards(me.size)[me.rank]",
        "rank 0 still has its own part, in dx",
    ),
    (
        "    whole = await all_gather(me, x * scale)",
        "    whole = await all_gather(me, x)",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in y",
    ),
    (
        "dnormed * scale, dscale",
        "dnormed, dscale",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in dx",
    ),
    (
        "    dup = dinner.T @ whole",
        "    dup = dinner.T @ await all_gather(me, x)",
        "rank 0 is wrong in 4 of 4 numbers, first in row 0, in dup",
    ),
    (
        "    dy = await all_gather(me, dy)\n",
        "",
        "rank 0, line 5: tensor of 2 x 2 * tensor of 4 x 2: the shapes differ",
    ),
    (
        "(dnormed * x).sum()",
        "(dnormed * x * scale).sum()",
        "rank 0 is wrong in 2 of 2 numbers, first in number 0, in dscale",
    ),
    (
        "    y = await reduce_scatter(me, (inner * inner) @ down)",
        "    y = (await all_reduce(me, (inner * inner) @ down)).shards(me.size)[me.rank]",
        "right, but bytes sent: 88, and s h (N-1)/N four times, and an all-reduce of h is 72",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("sequence-parallel", [(old, new)], words)
