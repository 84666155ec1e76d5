"""Accumulation with unequal tokens: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "model.whole_gradient(weights, batch) * count",
        "model.whole_gradient(weights, batch)",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "summed[:-1] / summed[-1:].item() * rate",
        "summed[:-1] * rate",
        "rank 0 has a sum over tokens: expected their mean",
    ),
    (
        "summed[:-1] / summed[-1:].item() * rate",
        "summed[:-1] / tokens / me.size * rate",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "summed[:-1] / summed[-1:].item() * rate",
        "summed[:-1] / tokens * rate",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        (
            "    summed = await all_reduce(me, join([gradient, vector([tokens])]))\n"
            "    return weights - summed[:-1] / summed[-1:].item() * rate"
        ),
        "    return weights - gradient / tokens * rate",
        "rank 0 has the mean over its own tokens only",
    ),
    (
        (
            "    summed = await all_reduce(me, join([gradient, vector([tokens])]))\n"
            "    return weights - summed[:-1] / summed[-1:].item() * rate"
        ),
        "    return weights - await all_reduce(me, gradient / tokens) / me.size * rate",
        "rank 0 weighs every rank alike: a mean over tokens weighs every token alike",
    ),
    (
        "        gradient += model",
        "        gradient = model",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "    summed = await",
        "    gradient = gradient / len(batches)\n    summed = await",
        "rank 0 is wrong in 18 of 18 numbers, first in number 0",
    ),
    (
        "        count = len(batch[0])",
        "        count = 1",
        ("rank 0 weighs a rank's micro-batches alike: a mean over tokens weighs every token alike"),
    ),
    (
        "        tokens += count",
        ("        tokens += count\n        await all_reduce(me, gradient)"),
        "right, but bytes sent: 220, and 2 (K + N numbers) (N-1)/N is 80",
    ),
    ("summed[:-1]", "summed", "rank 0, line 8: tensor of 18 - tensor of 19: the shapes differ"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("accumulate", [(old, new)], words)
