"""Interleaved 1F1B: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong, edited

RIGHT = [
    """\
async def program(me, stage, m, v):
    # the order as a list of pairs, tags as tuples
    p, s = me.size, me.rank
    turns = [(g + i, c) for g in range(0, m, p) for c in range(v) for i in range(p)]
    backs = [(i, v - 1 - c) for i, c in turns]
    warm = min(2 * (p - s - 1) + (v - 1) * p, m * v)
    order = [("F", *turn) for turn in turns[:warm]]
    for f, b in zip(turns[warm:], backs):
        order += [("F", *f), ("B", *b)]
    order += [("B", *b) for b in backs[m * v - warm :]]
    for kind, i, c in order:
        part = c * p + s
        if kind == "F":
            x = None if part == 0 else await me.receive((s - 1) % p, ("F", i, part - 1))
            y = stage.forward(i, x, c)
            if part < p * v - 1:
                await me.send((s + 1) % p, y, ("F", i, part))
        else:
            last = part == p * v - 1
            dy = None if last else await me.receive((s + 1) % p, ("B", i, part + 1))
            dx = stage.backward(i, dy, c)
            if part:
                await me.send((s - 1) % p, dx, ("B", i, part))
""",
    """\
async def program(me, stage, m, v):
    # the reference with its two halves merged into one function of a direction
    p, s = me.size, me.rank

    async def act(k, back):
        i, c = k // (p * v) * p + k % p, k // p % v
        c = v - 1 - c if back else c
        part, step = c * p + s, -1 if back else 1
        begins = part == (p * v - 1 if back else 0)
        x = None if begins else await me.receive((s - step) % p, [back, i, part - step].__repr__())
        y = (stage.backward if back else stage.forward)(i, x, c)
        if part != (0 if back else p * v - 1):
            await me.send((s + step) % p, y, [back, i, part].__repr__())

    ahead = min(2 * (p - 1 - s) + (v - 1) * p, m * v)
    for k in range(m * v + ahead):
        if k < m * v:
            await act(k, False)
        if k >= ahead:
            await act(k - ahead, True)
""",
    edited("interleaved", ("2 * (p - 1 - s) + (v - 1) * p", "(p - 1 - s) + (v - 1) * p")),
]
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


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("interleaved", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("interleaved", [(old, new)], words)
