"""Formula beside run: what a program's loss and norms keep."""

import pytest
import torch

from mathlib.meters.live import LiveMeter
from mathlib.meters.saved import saved_bytes
from mathlib.plan.room import find_keeps


def test_a_logit_takes_fourteen_bytes_where_the_loss_is_torchs_own() -> None:
    """What keeps.toml says of a program that widens its logits before the loss: counted."""
    n, V = 64, 4096
    meter = LiveMeter()
    with meter:
        logits = torch.zeros(n, V, dtype=torch.bfloat16).requires_grad_()
        target = torch.zeros(n, dtype=torch.long)
        torch.nn.functional.cross_entropy(logits.float(), target).backward()
    line = meter.timeline()
    keeps = find_keeps("megatron-flash")
    assert line.total(line.peak) / (n * V) == pytest.approx(keeps.logit, abs=0.01)


def test_a_norm_in_32_bits_keeps_six_bytes_instead_of_two() -> None:
    class Norm(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = x.float()
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            return wide.to(x.dtype) * self.weight

    norm, x = Norm(512), torch.zeros(64, 512, dtype=torch.bfloat16).requires_grad_()
    kept = saved_bytes(lambda: norm(x), norm) / x.numel()
    assert kept == pytest.approx(2 + find_keeps("megatron-flash-norms").norm, abs=0.01)
