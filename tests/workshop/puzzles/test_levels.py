"""All-reduce over two levels: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    shard = await all_reduce(me, shard, across)\n",
        "",
        "rank 0, numbers 0 to 7: the gradient of ranks 2 and 3 is missing",
    ),
    (
        "    return await all_gather(me, shard, node)",
        "    return shard",
        "rank 0 returns a tensor of 4: expected a tensor of 8",
    ),
    (
        (
            "    shard = await reduce_scatter(me, gradient, node)\n"
            "    shard = await all_reduce(me, shard, across)\n"
            "    return await all_gather(me, shard, node)"
        ),
        "    return await all_reduce(me, gradient)",
        "right, but bytes between nodes: 96, and 2 K (n-1) for n nodes is 64",
    ),
    (
        (
            "    shard = await reduce_scatter(me, gradient, node)\n"
            "    shard = await all_reduce(me, shard, across)\n"
            "    return await all_gather(me, shard, node)"
        ),
        "    return await all_reduce(me, await all_reduce(me, gradient, node), across)",
        "right, but bytes between nodes: 128, and 2 K (n-1) for n nodes is 64",
    ),
    (
        (
            "    shard = await reduce_scatter(me, gradient, node)\n"
            "    shard = await all_reduce(me, shard, across)\n"
            "    return await all_gather(me, shard, node)"
        ),
        "    return await all_reduce(me, gradient, across)",
        "rank 0, numbers 0 to 7: the gradient of ranks 1 and 3 is missing",
    ),
    (
        "all_reduce(me, shard, across)",
        "all_reduce(me, shard, node)",
        "rank 0 is wrong in 8 of 8 numbers, first in number 0",
    ),
    (
        "all_reduce(me, shard, across)",
        "all_reduce(me, shard)",
        "rank 0 is wrong in 8 of 8 numbers, first in number 0",
    ),
    (
        "    return await all_gather(me, shard, node)",
        "    return await all_gather(me, shard, across)",
        "rank 0 is wrong in 4 of 8 numbers, first in number 4",
    ),
    (
        "    return await all_gather(me, shard, node)",
        "    return await all_gather(me, shard, node) / node_size",
        "rank 0 has 1/2 times the gradient that is expected",
    ),
    (
        "first = me.rank - me.rank % node_size",
        "first = 0",
        "rank 2, line 5: group [0, 1]: rank 2 calls it and is not in it",
    ),
    (
        "reduce_scatter(me, gradient, node)",
        "reduce_scatter(me, gradient)",
        "rank 0 returns a tensor of 4: expected a tensor of 8",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("levels", [(old, new)], words)
