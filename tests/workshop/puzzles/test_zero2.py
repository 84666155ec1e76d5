"""ZeRO-2: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong

RIGHT = [
    """\
async def program(me, backward, weights, batches, rate):
    # the mean goes in before, the update is gathered instead of the weights
    mine = {}
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            shard = await reduce_scatter(me, gradient / (me.size * len(batches)))
            mine[layer] = mine[layer] + shard if layer in mine else shard
            del gradient, shard
    for layer in range(len(weights)):
        weights[layer] = weights[layer] - await all_gather(me, mine.pop(layer) * rate)
    return weights
""",
    """\
async def program(me, backward, weights, batches, rate):
    # shards go straight to their owners
    others = [r for r in range(me.size) if r != me.rank]
    mine = [zeros(len(w.shards(me.size)[me.rank])) for w in weights]
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            for r in others:
                await me.send(r, gradient.shards(me.size)[r])
            mine[layer] += gradient.shards(me.size)[me.rank]
            for r in others:
                mine[layer] += await me.receive(r)
    for layer, shard in enumerate(mine):
        own = weights[layer].shards(me.size)[me.rank] - shard * rate / len(batches) / me.size
        weights[layer] = await all_gather(me, own)
    return weights
""",
]
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


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("zero2", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zero2", [(old, new)], words)
