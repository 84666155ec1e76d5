"""A step of data parallelism: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "        gradient = await all_reduce(me, gradient) / me.size\n",
        "",
        "step 1: rank 0 still has its own gradient",
    ),
    (
        "await all_reduce(me, gradient) / me.size",
        "await all_reduce(me, gradient)",
        "step 1: rank 0 has the sum of all gradients: expected their mean",
    ),
    (
        "await all_reduce(me, gradient) / me.size",
        "gradient / me.size",
        "step 1: rank 0, numbers 0 to 35: the gradient of rank 1 is missing",
    ),
    (
        "await all_reduce(me, gradient) / me.size",
        "await all_reduce(me, gradient) / (me.size + 1)",
        "step 1: rank 0 has 2/3 times the gradient that is expected",
    ),
    (
        "        seen.append(weights)\n",
        "",
        "step 1: rank 0 returns []: expected a list of its weights after each of 2 steps",
    ),
    (
        "    return seen",
        "    return weights",
        (
            "step 1: rank 0 returns tensor of 36: expected a list of its weights after each of 2 "
            "steps"
        ),
    ),
    (
        "weights - gradient * rate",
        "weights + gradient * rate",
        "step 1: rank 0 has -1 times the gradient that is expected",
    ),
    (
        "weights - gradient * rate",
        "weights - gradient",
        "step 1: rank 0 has 7 times the gradient that is expected",
    ),
    (
        "model.whole_gradient(weights, batch)",
        "model.whole_gradient(weights, batches[0])",
        "step 2: rank 0 is wrong in 36 of 36 numbers, first in number 0",
    ),
    (
        (
            "        gradient = await all_reduce(me, gradient) / me.size\n"
            "        weights = weights - gradient * rate\n"
        ),
        (
            "        weights = weights - gradient * rate\n"
            "        weights = await all_reduce(me, weights)\n"
        ),
        "step 1: rank 0 is wrong in 36 of 36 numbers, first in number 0",
    ),
    (
        "        gradient = await all_reduce(me, gradient) / me.size\n",
        (
            "        gradient = await all_reduce(me, await all_reduce(me, gradient) / me.size) / "
            "me.size\n"
        ),
        "right, but bytes sent: 576, and 2 K (N-1)/N a step is 288",
    ),
    (
        "    for batch in batches:\n",
        (
            "    for batch in batches:\n        if me.rank == 1:\n"
            "            seen.append(weights)\n            continue\n"
        ),
        "deadlock: rank 0 waits for a message of rank 1; rank 1 has ended",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("ddp", [(old, new)], words)
