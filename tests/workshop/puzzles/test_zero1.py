"""ZeRO-1: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "await reduce_scatter(me, gradient)",
        "gradient.shards(me.size)[me.rank]",
        "step 1: rank 0, numbers 0 to 17: the gradient of rank 1 is missing",
    ),
    (
        "await reduce_scatter(me, gradient)",
        "(await all_reduce(me, gradient)).shards(me.size)[me.rank]",
        "right, but bytes sent: 432, and 2 P (N-1)/N a step is 288",
    ),
    (
        "model.whole_gradient(weights, batch) / me.size",
        "model.whole_gradient(weights, batch)",
        "step 1: rank 0 has the sum of all gradients: expected their mean",
    ),
    (
        "momentum = momentum * beta + shard",
        "momentum = momentum + shard",
        "step 1: rank 0 does not multiply the momentum by beta",
    ),
    (
        "momentum = momentum * beta + shard",
        "momentum = shard",
        "step 1: rank 0 forgets the momentum",
    ),
    (
        "weights.shards(me.size)[me.rank] - momentum * rate",
        "weights.shards(me.size)[0] - momentum * rate",
        "step 1: rank 0 is wrong in 18 of 36 numbers, first in number 18",
    ),
    (
        "    return seen, momentum",
        "    return seen",
        (
            "step 1: rank 0 returns tensor of 36: expected a list of its weights after each of 2 "
            "steps"
        ),
    ),
    (
        "    return seen, momentum",
        "    return seen, await all_gather(me, momentum)",
        "momentum: rank 0 returns a tensor of 36: expected a tensor of 18",
    ),
    (
        "        weights = await all_gather(me, own)\n",
        (
            "        weights = join([own if r == me.rank else x for r, x in "
            "enumerate(weights.shards(me.size))])\n"
        ),
        "step 1: rank 0 is wrong in 18 of 36 numbers, first in number 18",
    ),
    (
        "momentum = momentum * beta + shard",
        "velocity = momentum * beta + shard",
        "step 1: rank 0 is wrong in 36 of 36 numbers, first in number 0",
    ),
    ("- momentum * rate", "- shard * rate", "step 1: rank 0 forgets the momentum"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zero1", [(old, new)], words)
