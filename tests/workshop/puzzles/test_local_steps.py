"""Local steps: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong

RIGHT = [
    """\
async def program(me, model, weights, rounds, rate, beta):
    # the mean of the weights, and the move from it
    seen, momentum = [], weights * 0
    for batches in rounds:
        before = weights
        for batch in batches:
            weights = weights - rate * model.whole_gradient(weights, batch)
        mean = await all_reduce(me, weights) / me.size
        momentum = beta * momentum + (mean - before)
        weights = before + momentum
        seen.append(weights)
    return seen
""",
    """\
async def program(me, model, weights, rounds, rate, beta):
    # momentum kept as the last two weights
    seen, last = [], None
    for batches in rounds:
        local = weights
        for batch in batches:
            local -= model.whole_gradient(local, batch) * rate
        move = await all_gather(me, await reduce_scatter(me, (local - weights) / me.size))
        new = weights + move if last is None else weights + move + (weights - last) * beta
        last, weights = weights, new
        seen.append(weights)
    return seen
""",
]
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


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("local-steps", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("local-steps", [(old, new)], words)
