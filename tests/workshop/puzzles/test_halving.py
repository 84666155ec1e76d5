"""All-reduce by halving and doubling: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "while distance < me.size:",
        "while distance < me.size // 2:",
        "rank 0, numbers 0 to 7: the gradient of ranks 2 and 3 is missing",
    ),
    (
        "        keep += await",
        "        keep = await",
        "rank 0, numbers 0 to 1: the gradient of ranks 0, 1 and 2 is missing",
    ),
    (
        "(high, low) if me.rank & distance else (low, high)",
        "(low, high) if me.rank & distance else (high, low)",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "        distance *= 2\n",
        "        distance += 1\n",
        "rank 0 returns a tensor of 4: expected a tensor of 8",
    ),
    (
        "        keep = join([other, keep] if me.rank & distance else [keep, other])",
        "        keep = join([keep, other])",
        "rank 1 has the right numbers in the wrong places",
    ),
    (
        "        keep = join([other, keep] if me.rank & distance else [keep, other])",
        "        keep = join([other, keep])",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "        await me.send(me.rank ^ distance, give)",
        "        await me.send(me.rank ^ distance, keep)",
        "rank 0 is wrong in 8 of 8 numbers, first in number 0",
    ),
    (
        "    return keep",
        "    return keep / me.size",
        "rank 0 has the mean of all gradients: expected their sum",
    ),
    (
        "    while distance > 1:",
        "    while distance > 2:",
        "rank 0 returns a tensor of 4: expected a tensor of 8",
    ),
    (
        "    keep, distance = gradient, 1",
        (
            "    for r in range(me.size):\n        if r != me.rank:\n"
            "            await me.send(r, gradient)\n"
            "    return sum([await me.receive(r) for r in range(me.size) if r != me.rank], "
            "gradient * 1)\n    keep, distance = gradient, 1"
        ),
        "right, but bytes sent: 96, and 2 K (N-1)/N is 48",
    ),
    (
        "keep += await me.receive(me.rank ^ distance)",
        "keep += await me.receive((me.rank + distance) % me.size)",
        (
            "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank "
            "2; rank 2 waits for a message of rank 3; rank 3 waits for a message of rank 0; and "
            "so round in a circle"
        ),
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("halving", [(old, new)], words)
