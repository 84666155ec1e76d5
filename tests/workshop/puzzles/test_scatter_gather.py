"""Reduce-scatter and all-gather: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    return shard, join(everything)",
        "    return shard",
        "rank 0 returns tensor of 3: expected its shard of the sum, and all weights",
    ),
    (
        "await me.send(r, shards[r])",
        "await me.send(r, shards[me.rank])",
        "rank 0 is wrong in 3 of 3 numbers, first in number 0, in its shard of the sum",
    ),
    (
        "await me.send(r, shards[r])",
        "await me.send(r, gradient)",
        "rank 0, line 8: tensor of 3 + tensor of 12: the shapes differ",
    ),
    (
        "        shard += await me.receive(r)",
        "        shard = await me.receive(r)",
        "rank 0, numbers 0 to 2: the gradient of ranks 0, 1 and 2 is missing",
    ),
    (
        "    return shard, join(everything)",
        "    return shard / me.size, join(everything)",
        "rank 0 has the mean of all gradients: expected their sum, in its shard of the sum",
    ),
    (
        "    return shard, join(everything)",
        "    return shard, join(everything[::-1])",
        "rank 0 has the right numbers in the wrong places, in the weights",
    ),
    (
        "    return shard, join(everything)",
        "    return shard, everything",
        "rank 0 returns list: expected a tensor of 12, in the weights",
    ),
    (
        "[weights if r == me.rank else await me.receive(r) for r in range(me.size)]",
        "[weights] + [await me.receive(r) for r in others]",
        "rank 1 has the right numbers in the wrong places, in the weights",
    ),
    (
        (
            "    for r in others:  # all-gather: everybody is sent this rank's shard\n"
            "        await me.send(r, weights)\n"
        ),
        "",
        (
            "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank "
            "0; and so round in a circle"
        ),
    ),
    (
        "await me.send(r, weights)",
        "await me.send(r, shard)",
        "rank 0 is wrong in 9 of 12 numbers, first in number 3, in the weights",
    ),
    (
        "    for r in others:\n        shard += ",
        "    for r in others[1:]:\n        shard += ",
        "rank 0 sends a message to rank 1 that rank 1 never receives",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("scatter-gather", [(old, new)], words)
