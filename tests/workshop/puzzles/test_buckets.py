"""Buckets that overlap with backward: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong

RIGHT = [
    """\
async def program(me, layers, bucket):
    # a bucket is a list of tensors in one message
    own, waiting, sent = [None] * layers.count, [], []
    for layer in range(layers.count - 1, -1, -1):
        own[layer] = layers.backward(layer)
        waiting = [*waiting, layer]
        if sum(map(len, (own[i] for i in waiting))) >= bucket:
            await me.send(1 - me.rank, [own[i] for i in waiting])
            sent, waiting = [*sent, waiting], []
    if waiting:
        await me.send(1 - me.rank, [own[i] for i in waiting])
        sent.append(waiting)
    for some in sent:
        for i, theirs in zip(some, await me.receive(1 - me.rank), strict=True):
            own[i] = own[i] + theirs
    return own
""",
    """\
async def program(me, layers, bucket):
    # what arrives says itself which layer it is of
    other, own, waiting, buckets = 1 - me.rank, {}, [], 0
    for layer in reversed(range(layers.count)):
        own[layer] = layers.backward(layer)
        waiting += [layer, own[layer]]
        if sum(len(x) for x in waiting[1::2]) >= bucket or layer == 0:
            await me.send(other, waiting[1::2], tag=tuple(waiting[::2]))
            own["sent"] = [*own.get("sent", []), tuple(waiting[::2])]
            waiting, buckets = [], buckets + 1
    for tag in reversed(own.pop("sent")):
        for layer, theirs in zip(tag, await me.receive(other, tag), strict=True):
            own[layer] += theirs
    return [own[i] for i in range(layers.count)]
""",
]
WRONG = [  # what stands there, what somebody writes, and what is said
    (
        ">= bucket or layer == 0",
        ">= 2 or layer == 0",
        (
            "right, but time: 21 seconds, and backward and the last bucket of an all-reduce "
            "behind it is 20"
        ),
    ),
    (
        ">= bucket or layer == 0",
        ">= 1000 or layer == 0",
        (
            "right, but time: 21 seconds, and backward and the last bucket of an all-reduce "
            "behind it is 20"
        ),
    ),
    (
        "            waiting = []\n",
        (
            "            waiting = []\n"
            "            arrived = await me.receive(other)\n"
            "            for i, theirs in zip(sent[-1], arrived.shards(len(sent[-1])), "
            "strict=True):\n                own[i] += theirs\n"
            "            sent = []\n"
        ),
        (
            "right, but time: 22 seconds, and backward and the last bucket of an all-reduce "
            "behind it is 20"
        ),
    ),
    (" or layer == 0", "", "rank 0, numbers 0 to 3: the gradient of rank 1 is missing"),
    (
        "            own[i] += theirs",
        "            own[i] = theirs",
        "rank 0, numbers 0 to 7: the gradient of rank 0 is missing",
    ),
    (
        "    for group in sent:",
        "    for group in reversed(sent):",
        "rank 0 is wrong in 8 of 8 numbers, first in number 0",
    ),
    (
        "arrived.shards(len(group))",
        "arrived.shards(len(group))[::-1]",
        "rank 0 is wrong in 8 of 8 numbers, first in number 0",
    ),
    (
        "for layer in reversed(range(layers.count)):",
        "for layer in range(layers.count):",
        "rank 0, numbers 6 to 7: the gradient of rank 1 is missing",
    ),
    (
        "for i in range(layers.count)]",
        "for i in sorted(own, reverse=True)]",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "            own[i] += theirs",
        "            own[i] = (own[i] + theirs) / 2",
        "rank 0 has the mean of all gradients: expected their sum",
    ),
]


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("buckets", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("buckets", [(old, new)], words)
