"""Stochastic rounding: a neighbour, right on average, and never moved where nothing is lost."""

import pytest
import torch

from mathlib.checks import InputError
from mathlib.memory import rounded_sums
from mathlib.model import stochastic


def dice():
    return torch.Generator().manual_seed(0)


def test_the_mean_is_the_number_and_only_neighbours_occur():
    for value in (1.001, -0.3, 1e-20, 3e30):
        exact = torch.full((100_000,), value)
        found = stochastic.rounded(exact, dice()).float()
        low, high = rounded_sums.neighbours(exact[0].item(), "bf16")
        assert set(found.tolist()) == {low, high}
        share = (found == high).double().mean().item()
        assert share == pytest.approx(rounded_sums.chance_up(exact[0].item(), "bf16"), abs=0.01)


def test_what_bf16_can_say_stays():
    exact = torch.randn(1000).bfloat16().float()
    assert torch.equal(stochastic.rounded(exact, dice()).float(), exact)


def test_nearest_has_a_mean_that_is_off():
    exact = torch.full((1000,), 1.001)
    assert (exact.bfloat16() == 1).all()


def test_only_fp32_is_taken():
    with pytest.raises(InputError, match="exact"):
        stochastic.rounded(torch.ones(2, dtype=torch.double))


def test_steps_below_half_the_spacing_are_lost_and_others_are_not():
    before = torch.randn(10_000, generator=dice()).bfloat16().float()
    exact = before * (1 + 0.01 * torch.randn(10_000, generator=dice()))
    said, found = stochastic.stays(before, exact), exact.bfloat16() == before
    assert 0.1 < said.double().mean() < 0.9
    assert (said == found).double().mean() > 0.99  # not below a power of two
    assert not stochastic.stays(torch.zeros(1), torch.ones(1)).any()
