"""The norm counts each parameter once, however it is cut, copied or sharded."""

import together_cases as cases
import torch
from patience import PATIENCE
from together_cases import CLIP, CONTEXT, DATA, EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.model import oracle

CASES = [
    ("gpt", PIPELINE | DATA | {"zero": 2}),
    ("modern", {"tensor": 4}),
    ("modern", DATA | TENSOR | SEQUENCE | {"zero": 3}),
    ("shared", CONTEXT | TENSOR | SEQUENCE | EXPERT | {"expert_tensor": 1, "zero": 1}),
]


def norms(cases_of):
    """By the rule, and as if nobody else held what a rank holds."""
    return [(norm(*case, True), norm(*case, False)) for case in cases_of]


def norm(name, layout, once):
    way = cases.make((name, layout, "SGD", CLIP))
    if not once:
        way.updates.holders = dict.fromkeys(way.updates.holders, 1)
    way.run(*way.my_sequences(*cases.tokens(0)))
    return way.update().item()


def norm_of_one(name):
    model = cases.whole(name)
    oracle.loss(model, *cases.tokens(0)).backward()
    return oracle.flat_gradient(model).norm().item()


def test_the_norm_is_that_of_one_process_and_not_if_copies_count_each():
    for found in launch.run(norms, 4, CASES, timeout=PATIENCE):
        for (name, _), (once, each) in zip(CASES, found, strict=True):
            assert abs(once - norm_of_one(name)) < oracle.EQUAL
            assert each > 1.01 * once and torch.isfinite(torch.tensor(each))
