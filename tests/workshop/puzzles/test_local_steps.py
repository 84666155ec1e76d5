"""Local steps: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        ("        momentum = momentum * beta + moved\n        weights = weights + momentum\n"),
        "        weights = weights + moved\n",
        "round 2: rank 0 has the mean of all weights: the outer momentum is missing",
    ),
    (
        "await all_reduce(me, local - weights) / me.size",
        "local - weights",
        "round 1: rank 0 still has its own weights",
    ),
    (
        "await all_reduce(me, local - weights) / me.size",
        "await all_reduce(me, local - weights)",
        "round 1: rank 0 has a sum where a mean is expected",
    ),
    (
        "await all_reduce(me, local - weights) / me.size",
        "await all_reduce(me, weights - local) / me.size",
        "round 1: rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "model.whole_gradient(local, batch)",
        "model.whole_gradient(weights, batch)",
        "round 1: rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "model.whole_gradient(local, batch)",
        "await all_reduce(me, model.whole_gradient(local, batch)) / me.size",
        "round 1: rank 0 has the steps of one process: local steps use a rank's own weights",
    ),
    (
        "        weights = weights + momentum\n",
        "        weights = local + momentum\n",
        "round 1: rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "        seen.append(weights)",
        "        seen.append(local)",
        "round 1: rank 0 still has its own weights",
    ),
    (
        "    return seen",
        "    return seen[-1]",
        ("round 1: rank 0 returns tensor of 18: expected a list of its weights after each round"),
    ),
    (
        "momentum * beta + moved",
        "momentum + moved",
        "round 2: rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "        moved = await",
        "        momentum = zeros(len(weights))\n        moved = await",
        "round 2: rank 0 has the mean of all weights: the outer momentum is missing",
    ),
    (
        "        weights = weights + momentum\n",
        "",
        "round 1: rank 0 has the weights that it began with",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("local-steps", [(old, new)], words)
