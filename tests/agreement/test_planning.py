"""Prediction beside published run: two of the best-known, from what their reports print."""

from dataclasses import replace

import pytest
import torch

from mathlib.compute import flops, params
from mathlib.meters.live import LiveMeter
from mathlib.meters.saved import saved_bytes
from mathlib.plan.calibration import find_rates
from mathlib.plan.gap import suspects
from mathlib.plan.machine import Machine, machine
from mathlib.plan.room import find_keeps
from mathlib.plan.step import interval, step
from mathlib.specs import Cluster, Layout, find_cluster, find_model

TOKENS = 2048 * 8192  # Llama 3's step


@pytest.mark.parametrize(("devices", "rate"), [(8192, 430e12), (16384, 400e12)])
def test_llama_3_took_what_was_predicted(devices: int, rate: float) -> None:
    """arXiv:2407.21783, Table 4; a chunk is a layer, section 3.3.2."""
    llama = find_model("llama3-405b")
    printed = 6 * params.count(llama).total * TOKENS / (devices * rate)
    rates = find_rates("h100-sxm", "megatron-core")
    told = {"tensor": 8, "pipeline": 16, "chunks": 8, "zero": 1, "sequence_parallel": True}
    layout = Layout(data=devices // 128, micro_batches=2048 * 128 // devices, **told)
    on = machine(llama, find_cluster("dgx-h100"), rates, tokens=8192)
    between = interval(on, layout)
    assert between.low < printed < between.high
    assert step(on, layout).total == pytest.approx(printed, rel=0.15)


def test_the_flop_of_deepseek_v3_are_those_that_its_authors_count() -> None:
    """arXiv:2505.09343, Table 4: 19.926 s a step; 385 TFLOP/s under the mask, 432 without."""
    for causal, printed in ((True, 385e12), (False, 432e12)):
        done = flops.training("deepseek-v3", sequences=15_360, tokens=4096, causal=causal).total
        assert done / 2048 / 19.926 == pytest.approx(printed, rel=0.01)


DEEPSEEK = {"visit_bytes": 1.5, "visit_nodes": 4}  # sections 3.3.3 and 3.2.2 of arXiv:2412.19437


def deepseek(**changes: float) -> tuple[Machine, Layout]:
    links = {"devices_per_node": 8, "node_bandwidth": 400e9, "link_bandwidth": 160e9}
    node = Cluster("h800", device="h800-sxm", **links)
    rates = replace(find_rates("h100-sxm", "megatron-core", precision="fp8"), **changes)
    layout = Layout(data=128, pipeline=16, expert=64, zero=1, micro_batches=120)
    return machine(find_model("deepseek-v3"), node, rates, tokens=4096), layout


def test_deepseek_v3_lies_between_exchanges_in_sight_and_hidden() -> None:
    """arXiv:2412.19437: 180,000 H800 hours for 1e12 tokens."""
    printed = 180_000 * 3600 / 1e12 * 15_360 * 4096 / 2048
    assert printed == pytest.approx(19.926, rel=0.01)
    usual, seen, hidden = (
        step(*deepseek(**one)).total for one in ({}, DEEPSEEK, DEEPSEEK | {"expert_hidden": 1.0})
    )
    assert hidden < printed < seen < usual
    whole, lasted = (interval(*deepseek(**one)) for one in ({}, DEEPSEEK))
    assert not whole.low < printed < whole.high  # as if all were sent in 16 bits, to all nodes
    assert lasted.low < printed < lasted.high
    alone = [one.name for one in suspects(*deepseek(**DEEPSEEK), seconds=19.926) if one.needed]
    assert alone == ["expert_hidden"]  # what DualPipe is for


def test_two_constants_together_explain_deepseek_v3_without_hiding() -> None:
    """The full bandwidth out of a node, which the report says it reaches, and a quicker kernel."""
    on, layout = deepseek(**DEEPSEEK, network=1.0)
    enough = {one.name: one for one in suspects(on, layout, seconds=19.926) if one.needed}
    assert {"attention", "grouped", "expert_hidden"} <= set(enough)
    assert enough["attention"].needed < 0.5


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
