"""Buckets that overlap with backward: each mistake is named."""

import pytest
from solutions import assert_wrong

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


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("buckets", [(old, new)], words)
