"""What a core's rates predict, and which kernels of a step are which; no verdict is a time."""

import pytest
import torch

from mathlib.meters.kernels import Kernel, kernels_of
from mathlib.model import data, gpt
from mathlib.trials import roofline_core as core

ONE = core.Core({8: 1e9, 2048: 8e9}, {1: 2e9}, {2**14: 4e9, 2**26: 1e9}, {2**26: 2e9}, launch=1e-6)


def test_a_kernel_takes_the_larger_of_two_times_and_its_launch():
    assert (ONE.peak, ONE.bandwidth) == (8e9, 2e9)
    assert ONE.foreseen(Kernel("mm", 8_000_000, 2**27, 0.0)) == pytest.approx(2**27 / 1e9 + 1e-6)
    assert ONE.foreseen(Kernel("mm", 80_000_000, 2**15, 0.0)) == pytest.approx(0.010001)
    assert ONE.foreseen(Kernel("_fused_adam_", 0, 2**27, 0.0)) == pytest.approx(2**26 / 1e9 + 1e-6)
    assert ONE.off("roof") > ONE.off("roof and launch") and len(ONE.points()) == 2


def test_the_bytes_of_a_step_are_told_by_kind():
    model = gpt.GPT(core.SHAPE)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch = data.batch(core.SEQUENCES, core.SHAPE.context)

    def step():
        optimizer.zero_grad()
        model.loss(*batch).backward()
        optimizer.step()

    step()
    pairs, copies = core.counted(kernels_of(step))
    assert all(pairs[k][0] == pairs[k][1] for k in ("matmuls", "residual")) and 0 < copies < 0.1
    timing = core.timed(step, ONE, rounds=1)
    assert {*pairs, "copies and sums", "embedding"} == set(timing.calls)
    assert min(timing.step, timing.ideal, timing.ratio("matmuls")) > 0
    assert [row[0] for row in timing.rows()][-2:] == ["the step", "its share of the peak"]


def test_a_core_is_measured_by_every_size(monkeypatch):
    monkeypatch.setattr(core, "SIDES", (8, 16))
    monkeypatch.setattr(core, "WIDE", 32)
    monkeypatch.setattr(core, "SIZES", [2**14])
    found = core.measured(repeat=1)
    assert set(found.squares) == {8, 16} and set(found.thin) == set(core.ROWS)
    assert set(found.streams) == set(found.in_place) == {2**14} and found.launch > 0
