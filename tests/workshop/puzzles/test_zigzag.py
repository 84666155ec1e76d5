"""Causal ring attention, balanced: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "(2 * me.size - 1 - me.rank) * half",
        "(me.size + me.rank) * half",
        "rank 3 computes 46 scores and rank 0 22: balanced, every rank computes 34",
    ),
    (
        "    places = [*range(first, first + half), *range(last, last + half)]",
        "    places = list(range(me.rank, tokens, me.size))",
        "rank 3 computes 40 scores and rank 0 28: balanced, every rank computes 34",
    ),
    (
        "    places = [*range(first, first + half), *range(last, last + half)]",
        "    places = list(range(first, first + 2 * half))",
        "token 2 is on ranks 0 and 1: expected one",
    ),
    (
        "(2 * me.size - 1 - me.rank) * half",
        "(2 * me.size - me.rank) * half",
        "rank 0, line 5: read of [0, 1, 16, 17]: expected places from 0 to 15",
    ),
    (
        "await me.send((me.rank + 1) % me.size, [k, v, seen])",
        "await me.send((me.rank + 1) % me.size, [k, v, places])",
        "rank 1 is wrong in 8 of 8 numbers, first in row 0",
    ),
    (
        "y = part if y is None else y + part",
        "y = part",
        "rank 0 is wrong in 8 of 8 numbers, first in row 0",
    ),
    (
        "    return places, y",
        "    return sorted(places, reverse=True), y",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "    return places, y",
        "    return y",
        "rank 0 returns tensor of 4 x 2: expected its places and the results there",
    ),
    (
        "part = attend(q, k, v, places, seen)",
        "part = attend(q, k, v, places, places)",
        "rank 0 is wrong in 6 of 8 numbers, first in row 0",
    ),
    (
        "    q, k, v = read(places)",
        ("    q, k, v = read(places)\n    k, v = read(range(tokens))[1:]"),
        "rank 0, line 6: read for the second time: a rank has the tokens of its own places",
    ),
    (
        "for step in range(me.size):",
        "for step in range(1):",
        "rank 0 is wrong in 4 of 8 numbers, first in row 2",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("zigzag", [(old, new)], words)
