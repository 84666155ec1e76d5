"""What a core's rates predict, and what a step is timed by; no verdict is a time."""

import pytest
import torch

from mathlib.meters.kernels import Kernel
from mathlib.trials import roofline_core as core

ONE = core.Core({8: 1e9, 2048: 8e9}, {1: 2e9}, {2**14: 4e9, 2**26: 1e9}, {2**26: 2e9}, launch=1e-6)


def test_a_kernel_takes_the_larger_of_two_times_and_its_launch():
    assert (ONE.peak, ONE.bandwidth) == (8e9, 2e9)
    assert ONE.foreseen(Kernel("mm", 8_000_000, 2**27, 0.0)) == pytest.approx(2**27 / 1e9 + 1e-6)
    assert ONE.foreseen(Kernel("mm", 80_000_000, 2**15, 0.0)) == pytest.approx(0.010001)
    assert ONE.foreseen(Kernel("_fused_adam_", 0, 2**27, 0.0)) == pytest.approx(2**26 / 1e9 + 1e-6)
    assert ONE.off("roof") > ONE.off("roof and launch") and len(ONE.points()) == 2


def test_a_step_is_timed_by_kind():
    kinds, least, ideal = core.timed(lambda: torch.ones(8, 8) @ torch.ones(8, 8), ONE, rounds=1)
    assert set(kinds) == {"matmuls", "copies and sums"} and 0 < ideal <= 2 * 8**3 / ONE.peak
    assert (kinds["matmuls"][0], kinds["copies and sums"][0]) == (1, 2) and least > 0
    told = core.rows({"matmuls": (3, 0.002, 0.003), "norms": (2, 0.001, 0.002)}, 0.006, 0.0015)
    assert told[-2:] == [
        ["the step", 5, "3.0 ms", "6.0 ms", 2.0],
        ["its share of the peak", "", "50%", "25%", ""],
    ]


def test_a_core_is_measured_by_every_size(monkeypatch):
    for name, value in {"SIDES": (8, 16), "WIDE": 32, "SIZES": [2**14]}.items():
        monkeypatch.setattr(core, name, value)
    found = core.measured(repeat=1)
    assert set(found.squares) == {8, 16} and set(found.thin) == set(core.ROWS)
    assert set(found.streams) == set(found.in_place) == {2**14} and found.launch > 0
