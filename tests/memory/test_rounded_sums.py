"""Sums of small steps: where they stall, and that chance carries them on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.memory import bits, rounded_sums

TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def test_a_thousand_thousandths():
    sums = {d: rounded_sums.add_up(step=0.001, steps=1000, dtype=d)[-1] for d in TORCH}
    assert sums["bf16"] == 0.5 == rounded_sums.stalls_at(0.001, "bf16")
    assert abs(sums["fp32"] - 1) < 1e-4 and 0.95 < sums["fp16"] < 0.99
    by_chance = rounded_sums.add_up(step=0.001, steps=1000, dtype="bf16", rounding="stochastic")[-1]
    assert abs(by_chance - 1) < 0.15


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_torch_adds_up_the_same(name):
    total = torch.zeros((), dtype=TORCH[name])
    step = bits.rounded(0.001, name)
    for wanted in rounded_sums.add_up(step=step, steps=300, dtype=name)[1:]:
        total += step
        assert total.item() == wanted


@given(st.floats(1e-3, 10), st.sampled_from(["bf16", "fp16", "fp8_e4m3", "fp8_e5m2"]))
def test_a_sum_stalls_where_the_formula_says(step, dtype):
    at = rounded_sums.stalls_at(step, dtype)
    if at == float("inf"):
        return
    assert bits.rounded(at + step, dtype) == at
    below = rounded_sums.neighbours(at * 0.999, dtype)[0]
    assert bits.rounded(below + step, dtype) > below


@given(st.floats(-100, 100))
def test_the_mean_of_both_neighbours_is_the_number(value):
    low, high = rounded_sums.neighbours(value, "bf16")
    up = rounded_sums.chance_up(value, "bf16")
    assert low <= value <= high and 0 <= up <= 1
    assert low + up * (high - low) == pytest.approx(value)
    assert {bits.rounded(low, "bf16"), bits.rounded(high, "bf16")} == {low, high}


def test_what_lies_beyond_the_range_is_refused():
    with pytest.raises(InputError, match="value"):
        rounded_sums.neighbours(1e6, "fp16")
    assert rounded_sums.stalls_at(1e9, "fp16") == float("inf")
