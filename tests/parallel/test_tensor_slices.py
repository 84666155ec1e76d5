"""Blocks cut over the ranks have the gradients of whole ones."""

import pytest

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel import tensor_slices
from mathlib.traffic import volumes

SHAPE = gpt.small(layers=2, width=32, heads=4, context=16, tied=False)
BATCH = 16


def gradients(without: str = "") -> tuple[dict, float]:
    """Those of a cut model, gathered, and bytes sent; `without` names what is switched off."""
    if without:
        kind = getattr(tensor_slices, without)
        way = "forward" if without == "Sum" else "backward"
        setattr(kind, way, staticmethod(lambda context, x: x))
    model = tensor_slices.cut(gpt.GPT(SHAPE).double())
    batch = data.batch(BATCH, SHAPE.context)
    oracle.loss(model, *batch).backward()
    model.zero_grad()
    with wire.tcp() as system:
        oracle.loss(model, *batch).backward()
    return tensor_slices.whole_gradients(model), system.sent


def wanted() -> dict:
    model = gpt.GPT(SHAPE).double()
    oracle.loss(model, *data.batch(BATCH, SHAPE.context)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def farthest(found: dict) -> float:
    one = wanted()
    assert found.keys() == one.keys()
    return max(oracle.distance([found[name]], one[name]) for name in one)


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_gradient_is_that_of_the_whole_block(ranks):
    for found, sent in launch.run(gradients, ranks):
        assert farthest(found) < oracle.EQUAL
        count = volumes.tensor_parallel(
            SHAPE, tensor=ranks, micro_batch=BATCH, bytes_per_element=8
        ).total
        assert sent == pytest.approx(count, rel=0.05)


@pytest.mark.parametrize("without", ["Sum", "Copy"])
def test_without_one_of_its_sums_they_are_not(without):
    assert farthest(launch.run(gradients, 2, without)[0][0]) > 1e-4


def too_many():
    with pytest.raises(InputError, match="ranks"):
        tensor_slices.cut(gpt.GPT(gpt.small(layers=1, width=32, heads=2, context=16)))


def test_more_ranks_than_heads_are_refused():
    launch.run(too_many, 3)
