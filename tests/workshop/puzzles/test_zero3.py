"""ZeRO-3: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "await reduce_scatter(me, gradient) / me.size",
        "gradient.shards(me.size)[me.rank]",
        "layer 0: rank 0 still has its own gradient",
    ),
    (
        "await reduce_scatter(me, gradient) / me.size",
        "await reduce_scatter(me, gradient)",
        "layer 0: rank 0 has the sum of all gradients: expected their mean",
    ),
    (
        "    for i in reversed(",
        ("    kept = [await all_gather(me, shard) for shard in shards]\n    for i in reversed("),
        "right, but bytes sent: 1152, and 3 P (N-1)/N is 864",
    ),
    (
        "await reduce_scatter(me, gradient) / me.size",
        "(await all_reduce(me, gradient)).shards(me.size)[me.rank] / me.size",
        "right, but bytes sent: 1152, and 3 P (N-1)/N is 864",
    ),
    ("inputs.pop(), dy", "x, dy", "layer 0: rank 0 is wrong in 6 of 6 numbers, first in number 0"),
    (
        "inputs.pop(), dy",
        "inputs.pop(0), dy",
        "layer 0: rank 0 is wrong in 6 of 6 numbers, first in number 0",
    ),
    (
        "    return shards",
        "    return shards[0]",
        ("layer 0: rank 0 returns tensor of 6: expected a list of its shards, one for each layer"),
    ),
    (
        "for i in reversed(range(len(shards))):",
        "for i in reversed(range(1, len(shards))):",
        "layer 0: rank 0 has a gradient of nothing but 0",
    ),
    (
        "* 2 / len(target)",
        "/ len(target)",
        "layer 0: rank 0 has 1/2 times the gradient that is expected",
    ),
    (
        "    dy = (x - target) * 2 / len(target)",
        "    dy = (x - target) * 2",
        "layer 0: rank 0 has 2 times the gradient that is expected",
    ),
    (
        "        shards[i] -= await",
        "        shards[i] = shards[i] + await",
        "layer 0: rank 0 has -1 times the gradient that is expected",
    ),
    (
        "model.backward(await all_gather(me, shards[i])",
        "model.backward(await all_gather(me, shards[0])",
        "layer 0: rank 0 is wrong in 6 of 6 numbers, first in number 0",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zero3", [(old, new)], words)
