"""Ring attention: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "y = part if y is None else y + part",
        "y = part",
        "rank 0, numbers 0 to 7: the block of ranks 0, 2 and 3 is missing",
    ),
    (
        "for step in range(me.size):",
        "for step in range(1, me.size):",
        "rank 0, numbers 0 to 7: the block of rank 1 is missing",
    ),
    (
        (
            "            await me.send(right, [k, v])  # travels while this rank computes\n"
            "        part = attend(q, k, v)\n"
        ),
        (
            "            pass\n        part = attend(q, k, v)\n"
            "        if not last:\n"
            "            await me.send(right, [k, v])\n"
        ),
        "right, but time: 7 seconds, and N blocks, the messages hidden behind them is 4",
    ),
    (
        "            await me.send(right, [k, v])",
        "            await me.send(right, [q, k, v])",
        "rank 0, line 11: ValueError: too many values to unpack (expected 2)",
    ),
    (
        "            k, v = await me.receive(left)",
        "            k, v = await me.receive(right)",
        (
            "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank "
            "2; rank 2 waits for a message of rank 3; rank 3 waits for a message of rank 0; and "
            "so round in a circle"
        ),
    ),
    (
        "            k, v = await me.receive(left)",
        "            v, k = await me.receive(left)",
        "rank 0 is wrong in 8 of 8 numbers, first in row 0",
    ),
    (
        "        part = attend(q, k, v)\n",
        "        part = attend(q, k, v) if step else attend(q, k, v) * 2\n",
        "rank 0, numbers 0 to 7: the block of rank 0 counts twice",
    ),
    (
        "        part = attend(q, k, v)\n",
        "        part = attend(q, v, k)\n",
        "rank 0 is wrong in 8 of 8 numbers, first in row 0",
    ),
    (
        "            k, v = await me.receive(left)",
        "            await me.receive(left)",
        "rank 0 is wrong in 8 of 8 numbers, first in row 0",
    ),
    (
        "    return y",
        "    return y / me.size",
        "rank 0 has the mean of all blocks: expected their sum",
    ),
    (
        "        last = step == me.size - 1\n",
        "        last = False\n",
        "right, but bytes sent: 256, and 2 s h (N-1)/N numbers is 192",
    ),
    (
        "    y = None\n",
        (
            "    y = None\n    for r in range(me.size):\n"
            "        if r != me.rank:\n"
            "            await me.send(r, [k, v])\n"
            "    blocks = [[k, v] if r == me.rank else await me.receive(r) for r in "
            "range(me.size)]\n"
            "    return sum([attend(q, *b) for b in blocks[1:]], attend(q, *blocks[0]))\n"
        ),
        "right, but time: 7 seconds, and N blocks, the messages hidden behind them is 4",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("ring-attention", [(old, new)], words)
