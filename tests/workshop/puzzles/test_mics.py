"""MiCS: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    gradient = await all_reduce(me, gradient, replicas)\n",
        "",
        "rank 0, numbers 0 to 17: the gradient of ranks 2 and 3 is missing",
    ),
    (
        "gradient / me.size * rate",
        "gradient / node_size * rate",
        "rank 0 has 2 times the gradient that is expected",
    ),
    (
        "gradient / me.size * rate",
        "gradient * rate",
        "rank 0 has the sum of all gradients: expected their mean",
    ),
    (
        "all_reduce(me, gradient, replicas)",
        "all_reduce(me, gradient, node)",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "all_reduce(me, gradient, replicas)",
        "all_reduce(me, gradient)",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "    weights = await all_gather(me, shard, node)",
        "    weights = await all_gather(me, shard, replicas)",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "reduce_scatter(me, model.whole_gradient(weights, batch), node)",
        "reduce_scatter(me, model.whole_gradient(weights, batch))",
        "rank 0, line 8: tensor of 18 - tensor of 9: the shapes differ",
    ),
    (
        (
            "    gradient = await reduce_scatter(me, model.whole_gradient(weights, batch), node)\n"
            "    gradient = await all_reduce(me, gradient, replicas)\n"
        ),
        (
            "    gradient = await all_reduce(me, model.whole_gradient(weights, batch))\n"
            "    gradient = gradient.shards(node_size)[me.rank % node_size]\n"
        ),
        "right, but bytes sent: 288, and 2 P (S-1)/S + 2 (P/S) (N/S - 1)/(N/S) is 216",
    ),
    (
        "    return shard - gradient / me.size * rate",
        "    return weights",
        "rank 0 returns tensor of 36: expected its shard, a tensor of 18",
    ),
    (
        "    return shard - gradient / me.size * rate",
        "    return shard",
        "rank 0 has a gradient of nothing but 0",
    ),
    (
        "await reduce_scatter(me, model.whole_gradient(weights, batch), node)",
        "model.whole_gradient(weights, batch).shards(node_size)[me.rank % node_size]",
        "rank 0, numbers 0 to 17: the gradient of ranks 1 and 3 is missing",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("mics", [(old, new)], words)
