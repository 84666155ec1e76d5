"""ZeRO-2: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "            shards[layer] += await reduce_scatter(me, gradient)",
        "            shards[layer] = await reduce_scatter(me, gradient)",
        "rank 0 is wrong in 108 of 108 numbers, first in number 0",
    ),
    (
        "            shards[layer] += await reduce_scatter(me, gradient)",
        "            shards[layer] += gradient.shards(me.size)[me.rank]",
        "rank 0, numbers 0 to 5: the gradient of ranks 1 and 2 is missing",
    ),
    (
        "            shards[layer] += await reduce_scatter(me, gradient)",
        ("            shards[layer] += (await all_reduce(me, gradient)).shards(me.size)[me.rank]"),
        "right, but bytes sent: 864, and (m + 1) P (N-1)/N for m = 1 micro-batches is 576",
    ),
    ("(me.size * len(batches))", "me.size", "rank 0 has 2 times the gradient that is expected"),
    (
        "(me.size * len(batches))",
        "len(batches)",
        "rank 0 has the sum of all gradients: expected their mean",
    ),
    (
        "        for layer, gradient in backward(weights, batch):\n",
        "        for layer, gradient in list(backward(weights, batch)):\n",
        (
            "right, but live numbers: 286, and P + P/N, activations and 4 layers' worth of what "
            "is in flight is 232"
        ),
    ),
    (
        "        weights[layer] = await all_gather(me, own)",
        "        weights[layer] = own",
        (
            "rank 0 returns [tensor of 6, tensor of 6, tensor of 6, tensor of 6, tensor of 6, "
            "tensor of 6]: expected a list of all layers' weights"
        ),
    ),
    (
        "    return weights",
        "    return weights[0]",
        "rank 0 returns tensor of 18: expected a list of all layers' weights",
    ),
    ("own -= shard", "own += shard", "rank 0 has -1 times the gradient that is expected"),
    (
        "    return weights",
        "    return weights[::-1]",
        "rank 0 is wrong in 108 of 108 numbers, first in number 0",
    ),
    (
        "    for layer, shard in enumerate(shards):",
        "    for layer, shard in enumerate(shards[:-1]):",
        "rank 0, numbers 90 to 107: the gradient of ranks 0, 1 and 2 is missing",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zero2", [(old, new)], words)
