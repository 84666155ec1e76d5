"""Adapters in real steps: every part and peak is the formula's, and a part left out is seen."""

import pytest

from mathlib.memory import adapters
from mathlib.trials import after


@pytest.mark.parametrize("method", after.METHODS)
def test_parts_are_the_formula_s(method):
    found = after.held(method)
    assert {"trained weights", "gradients", "optimizer states", "activations"} <= set(found)
    assert ("4 bits" in found) == (method == "QLoRA") and ("frozen" in found) == (method != "full")
    for name, (told, measured) in found.items():
        near = 0.03 if name == "scales" else 0.001 if name == "activations" else 0
        assert measured == pytest.approx(told, rel=near, abs=0), name


@pytest.mark.parametrize("method", after.METHODS)
def test_peaks_are_the_formula_s(method):
    told, measured = after.peak(method, 32)
    assert measured == pytest.approx(told, rel=0.001)


def test_long_sequences_take_what_adapters_save():
    short, long = (
        {m: after.needed(m, after.SHAPE.but(context=s)).total for m in after.METHODS}
        for s in (16, 256)
    )
    assert short["LoRA"] < 0.5 * short["full"] and long["LoRA"] > 0.85 * long["full"]


def test_a_matrix_without_an_adapter_is_seen():
    few = adapters.TARGETS[:-1]
    less = adapters.activations(after.SHAPE, rank=after.RANK, targets=few, bytes_per_element=4)
    all_ = adapters.activations(
        after.SHAPE, rank=after.RANK, targets=adapters.TARGETS, bytes_per_element=4
    )
    assert less.total < 0.99 * all_.total
