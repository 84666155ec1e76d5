"""The rows that a sharded model lies in: all of its parameters, each once."""

import pytest

from mathlib.compute import params
from mathlib.memory import zero_rank
from mathlib.specs import Experts, Layout, Model

SMALL = Model("small", layers=4, width=64, heads=4, vocab=251, context=32, dropout=False)


def at(model: Model, moment: str, **options):
    return zero_rank.moments(model, Layout(data=4, zero=3), recipe="sgd", **options)[moment]


def test_layers_with_experts_are_larger_rows():
    mixed = SMALL.but(experts=Experts(8, 2, 64, dense_layers=2))
    dense, sparse = (at(mixed, f"layer {i}")["live layer"] for i in (0, 3))
    assert sparse > dense


@pytest.mark.parametrize("experts", [None, Experts(8, 2, 64, dense_layers=2)])
def test_layers_and_what_stands_in_none_are_the_model(experts):
    model = SMALL.but(experts=experts)
    layers = sum(at(model, f"forward {i}").amount("live layer") for i in range(4))
    outside = at(model, "loss").amount("outside the layers")
    assert layers + outside == pytest.approx(4 * params.count(model).total, rel=1e-3)


@pytest.mark.parametrize("stage", [1, 2])
def test_smaller_buckets_are_padded_more_often(stage):
    layout, padding = Layout(data=7, zero=stage), []
    for size in (1e9, 1e4):
        parts = zero_rank.moments(SMALL, layout, recipe="sgd", bucket_bytes=size)["update"]
        padding.append(parts.amount("padding") if "padding" in parts else 0)
    assert padding[0] < 4 * 7 < padding[1] < 4 * 7 * 60
