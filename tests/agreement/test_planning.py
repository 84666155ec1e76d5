"""Prediction beside published run: two of the best-known, from what their reports print."""

from dataclasses import replace

import pytest

from mathlib.compute import flops, params
from mathlib.plan.calibration import find_rates, interval
from mathlib.plan.gap import suspects
from mathlib.plan.machine import machine
from mathlib.plan.step import step
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
    time = step(machine(llama, find_cluster("dgx-h100"), rates, tokens=8192), layout).total
    between = interval(time, "megatron-core")
    assert between.low < printed < between.high
    assert time == pytest.approx(printed, rel=0.15)


def test_the_flop_of_deepseek_v3_are_those_that_its_authors_count() -> None:
    """arXiv:2505.09343, Table 4: 19.926 s a step; 385 TFLOP/s under the mask, 432 without."""
    for causal, printed in ((True, 385e12), (False, 432e12)):
        done = flops.training("deepseek-v3", sequences=15_360, tokens=4096, causal=causal).total
        assert done / 2048 / 19.926 == pytest.approx(printed, rel=0.01)


def test_deepseek_v3_lies_between_exchanges_in_sight_and_hidden() -> None:
    """arXiv:2412.19437: 180,000 H800 hours for 1e12 tokens."""
    printed = 180_000 * 3600 / 1e12 * 15_360 * 4096 / 2048
    assert printed == pytest.approx(19.926, rel=0.01)
    links = {"devices_per_node": 8, "node_bandwidth": 400e9, "link_bandwidth": 160e9}
    node = Cluster("h800", device="h800-sxm", **links)
    rates = find_rates("h100-sxm", "megatron-core", precision="fp8")
    layout = Layout(data=128, pipeline=16, expert=64, zero=1, micro_batches=120)
    hidden, seen = (
        step(machine(find_model("deepseek-v3"), node, one, tokens=4096), layout).total
        for one in (replace(rates, expert_hidden=1.0), rates)
    )
    assert hidden < printed < seen
    on = machine(find_model("deepseek-v3"), node, rates, tokens=4096)
    alone = [one.name for one in suspects(on, layout, seconds=19.926) if one.needed is not None]
    assert alone == ["expert_hidden"]  # what DualPipe is for
