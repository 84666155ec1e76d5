"""Interleaved 1F1B: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "2 * (p - 1 - s) + (v - 1) * p",
        "2 * (p - 1 - s)",
        "rank 1, line 16: backward of micro-batch 0 through chunk 1 before its forward",
    ),
    (
        "2 * (p - 1 - s) + (v - 1) * p",
        "2 * (p - 1 - s) + v * p",
        "stage 0 holds 7 inputs of chunks: interleaved holds at most 5 there",
    ),
    (
        "2 * (p - 1 - s) + (v - 1) * p",
        "m * v",
        "stage 0 holds 8 inputs of chunks: interleaved holds at most 5 there",
    ),
    (
        "i, c = k // (p * v) * p + k % p, v - 1 - k // p % v",
        "i, c = k // (p * v) * p + k % p, k // p % v",
        (
            "deadlock: rank 0 waits for a message 'B0 0' of rank 1; rank 1 waits for a message "
            "'B0 1' of rank 0; and so round in a circle"
        ),
    ),
    (
        "i, c = k // (p * v) * p + k % p, k // p % v\n",
        "i, c = k % m, k // m\n",
        "rank 1, line 16: backward of micro-batch 0 through chunk 1 before its forward",
    ),
    (
        ', f"F{i} {c * p + s + 1}")',
        ")",
        (
            "deadlock: rank 0 waits for a message 'F0 2' of rank 1; rank 1 waits for a message "
            "'F0 1' of rank 0; and so round in a circle"
        ),
    ),
    (
        "    for k in range(m * v - warm, m * v):",
        "    for k in range(m * v - warm, m * v - 1):",
        "rank 0 sends a message 'B3 1' to rank 1 that rank 1 never receives",
    ),
    (
        "y = stage.forward(i, x, c)",
        "y = stage.forward(i, x)",
        "rank 0, line 8: forward of micro-batch 0 through chunk 0 for the second time",
    ),
    (
        "c == v - 1 and s == p - 1\n        x =",
        "s == p - 1\n        x =",
        (
            "deadlock: rank 0 waits for a message 'F0 2' of rank 1; rank 1 waits for a message "
            "'F0 3' of rank 0; and so round in a circle"
        ),
    ),
    (
        "        await forward(warm + k)\n        await backward(k)",
        "        await backward(k)\n        await forward(warm + k)",
        "rank 1, line 16: backward of micro-batch 0 through chunk 1 before its forward",
    ),
    (
        "dy = None if last else",
        "dy = None if s == p - 1 else",
        ("rank 1, line 16: backward of micro-batch 0 through chunk 0: no gradient of its output"),
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("interleaved", [(old, new)], words)
