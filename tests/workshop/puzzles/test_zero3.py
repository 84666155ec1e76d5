"""ZeRO-3: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong

RIGHT = [
    """\
async def program(me, model, shards, batch, rate):
    # new shards in a list of their own, the mean before the reduction
    x, target = batch
    inputs, new = [x], list(shards)
    for shard in shards:
        weights = await all_gather(me, shard)
        inputs.append(model.forward(weights, inputs[-1]))
        del weights
    dy = (inputs.pop() - target) * 2 / len(target)
    for i in range(len(shards) - 1, -1, -1):
        weights = await all_gather(me, shards[i])
        dy, gradient = model.backward(weights, inputs.pop(), dy)
        del weights
        new[i] = shards[i] - await reduce_scatter(me, gradient / me.size) * rate
        del gradient
        shards[i] = None
    return new
""",
    """\
async def program(me, model, shards, batch, rate):
    # the last layer's weights stay between forward and backward
    (x, target), inputs = batch, []
    for shard in shards[:-1]:
        inputs.append(x)
        x = model.forward(await all_gather(me, shard), x)
    last = await all_gather(me, shards[-1])
    dy = (model.forward(last, x) - target) * 2 / len(target)
    dy, gradient = model.backward(last, x, dy)
    del last
    for i in reversed(range(len(shards))):
        shards[i] -= await reduce_scatter(me, gradient) * rate / me.size
        if i:
            dy, gradient = model.backward(await all_gather(me, shards[i - 1]), inputs.pop(), dy)
    return shards
""",
]
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


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("zero3", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zero3", [(old, new)], words)
