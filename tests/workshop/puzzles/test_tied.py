"""Tied embeddings: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "if r % stages in (0, stages - 1)]",
        "if r % stages == me.rank % stages]",
        "rank 0, numbers 0 to 11: the gradient of ranks 1 and 3 is missing",
    ),
    (
        "if r % stages in (0, stages - 1)]",
        "if r // stages == me.rank // stages and r % stages in (0, stages - 1)]",
        "rank 0, numbers 0 to 11: the gradient of ranks 2 and 3 is missing",
    ),
    (
        "await all_reduce(me, gradient, ends) / (me.size // stages)",
        "gradient",
        (
            "rank 0, numbers 0 to 11: the gradient of ranks 1, 2 and 3 is missing; the gradient "
            "of rank 0 counts twice"
        ),
    ),
    ("(me.size // stages)", "len(ends)", "rank 0 has 1/2 times the gradient that is expected"),
    (
        "    gradient = await all_reduce(me, gradient, ends) / (me.size // stages)",
        "    gradient = await all_reduce(me, gradient, ends)",
        "rank 0 has 2 times the gradient that is expected",
    ),
    (
        "    return embedding - gradient * rate",
        "    return gradient",
        "rank 0 is wrong in 12 of 12 numbers, first in number 0",
    ),
    (
        "    return embedding - gradient * rate",
        "    return embedding + gradient * rate",
        "rank 0 has -1 times the gradient that is expected",
    ),
    (
        "    return embedding - gradient * rate",
        "    return embedding - gradient * rate if me.rank % stages == 0 else embedding",
        "rank 1 has a gradient of nothing but 0",
    ),
    (
        "all_reduce(me, gradient, ends)",
        "all_reduce(me, gradient)",
        (
            "deadlock: rank 0 waits for a message of rank 3; rank 3 waits for a message of rank "
            "2; rank 2 has ended"
        ),
    ),
    (
        "ends = [r for r in range(me.size) if r % stages in (0, stages - 1)]",
        "ends = [0, me.size - 1]",
        "rank 1, line 5: group [0, 3]: rank 1 calls it and is not in it",
    ),
    (
        "    gradient = await all_reduce(me, gradient, ends) / (me.size // stages)",
        (
            "    gradient = await all_reduce(me, await all_reduce(me, gradient, ends), ends) / "
            "(me.size // stages)"
        ),
        "rank 0 has 4 times the gradient that is expected",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("tied", [(old, new)], words)
