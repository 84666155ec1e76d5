"""1F1B and its warm-up: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "warm = min(me.size - 1 - me.rank, m)",
        "warm = min(me.size - me.rank, m)",
        "stage 0 holds 5 micro-batches: 1F1B holds at most 4 there",
    ),
    (
        "warm = min(me.size - 1 - me.rank, m)",
        "warm = 0",
        "right, but time: 96 seconds, and (m + p - 1) (F + B) is 33",
    ),
    (
        "warm = min(me.size - 1 - me.rank, m)",
        "warm = min(me.rank, m)",
        (
            "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank "
            "0; and so round in a circle"
        ),
    ),
    (
        "warm = min(me.size - 1 - me.rank, m)",
        "warm = me.size - 1 - me.rank",
        (
            "rank 0, line 6: forward of micro-batch 2, chunk 0: expected micro-batches 0 to 1, "
            "chunks 0 to 0"
        ),
    ),
    (
        "    for i in range(m - warm, m):",
        "    for i in range(m - warm + 1, m):",
        "rank 3 sends a message to rank 2 that rank 2 never receives",
    ),
    (
        "        await forward(warm + i)",
        "        await forward(i)",
        "rank 0, line 6: forward of micro-batch 0 for the second time",
    ),
    (
        "        await forward(warm + i)\n        await backward(i)",
        "        await backward(i)\n        await forward(warm + i)",
        "rank 3, line 12: backward of micro-batch 0 before its forward",
    ),
    (
        "        await backward(i)\n    for",
        "        await backward(warm + i)\n    for",
        "rank 0, line 12: backward of micro-batch 5 for the second time",
    ),
    (
        ("        if not first:\n            await me.send(me.rank - 1, dx)"),
        ("        if not first and i:\n            await me.send(me.rank - 1, dx)"),
        (
            "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank "
            "2; rank 2 waits for a message of rank 3; rank 3 has ended"
        ),
    ),
    (
        ("        if not last:\n            await me.send(me.rank + 1, y)"),
        ("        if not last:\n            await me.send(me.rank + 1, x if x is not None else y)"),
        "stage 0: the gradient of its weights is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "        dy = None if last else await me.receive(me.rank + 1)",
        "        dy = None",
        "rank 0, line 12: backward of micro-batch 0: no gradient of its output",
    ),
    (
        "        y = stage.forward(i, x)",
        "        y = stage.forward(i)",
        "rank 1, line 6: forward of micro-batch 0: no input",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("pipeline", [(old, new)], words)
