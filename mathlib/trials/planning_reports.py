"""Llama 3 405B and DeepSeek-V3 beside the planner, which was fitted to neither.

Seconds of a step. Llama 3: Table 4 of arXiv:2407.21783; DeepSeek-V3: arXiv:2412.19437 and Table 4
of arXiv:2505.09343. The constants are Megatron Core's on an H100.
"""

from typing import Any

from mathlib import specs
from mathlib.compute import params
from mathlib.layout import Layout
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import Machine, machine
from mathlib.plan.room import Room
from mathlib.plan.step import step
from mathlib.records import replace

RATES = {8192: 430e12, 16384: 400e12}  # FLOP/s of a GPU as printed, by GPUs
LIMIT = specs.find_device("h100-sxm").room - 4e9
TOKENS = {"llama3-405b": 8192, "deepseek-v3": 4096}
V3_STEP = 19.926  # seconds, as measured by its authors
V3 = Layout(data=128, pipeline=16, expert=64, zero=1, micro_batches=120)
V3_SENDS: dict[str, Any] = {"visit_bytes": 1.5, "visit_nodes": 4}  # sections 3.3.3 and 3.2.2
V3_HOURS = 180_000  # GPU-hours that the report prints for a trillion tokens


def llama() -> Machine:
    """Llama 3 on nodes of eight H100s."""
    rates = find_rates("h100-sxm", "megatron-core")
    model = specs.find_model("llama3-405b")
    return machine(model, specs.find_cluster("dgx-h100"), rates, tokens=8192)


def llama_layout(gpus: int) -> Layout:
    """Eight tensor ranks, 16 stages in eight chunks: a chunk is a layer, section 3.3.2."""
    told: dict[str, Any] = {
        "tensor": 8,
        "pipeline": 16,
        "chunks": 8,
        "zero": 1,
        "sequence_parallel": True,
    }
    return Layout(data=gpus // 128, micro_batches=2048 * 128 // gpus, **told)


def llama_steps() -> dict[int, float]:
    """As printed: 16 million tokens by 6PD, at the printed rate."""
    done = 6 * params.count(llama().model).total * 2048 * 8192
    return {n: done / (n * rate) for n, rate in RATES.items()}


def halves_and_stays(steps: dict[int, float]) -> tuple[float, float]:
    """Of a step on 16,384 GPUs: what twice the GPUs halve, and what they do not."""
    stays = 2 * steps[16384] - steps[8192]
    return steps[16384] - stays, stays


def llama_predicted() -> dict[int, float]:
    return {n: step(llama(), llama_layout(n)).total for n in RATES}


def v3(**changes: Any) -> Machine:
    """DeepSeek-V3 on nodes of eight H800s, H100s with slower links; matmuls in fp8."""
    links: dict[str, Any] = {
        "devices_per_node": 8,
        "node_bandwidth": 400e9,
        "link_bandwidth": 160e9,
    }
    node = specs.Cluster("h800", device="h800-sxm", **links)
    rates = replace(find_rates("h100-sxm", "megatron-core", precision="fp8"), **changes)
    return machine(specs.find_model("deepseek-v3"), node, rates, tokens=4096)


def v3_cases() -> dict[str, tuple[Machine, float]]:
    """What the planner is told of EP communication, and the step that it predicts."""
    told = {
        "16 bits, all nodes": v3(),
        "8 bits out, four nodes": v3(**V3_SENDS),
        "all of the network reached": v3(**V3_SENDS, network=1.0),
        "communication all hidden": v3(**V3_SENDS, expert_hidden=1.0),
    }
    return {words: (on, step(on, V3).total) for words, on in told.items()}


def bytes_of(on: Machine, layout: Layout, **changes: Any) -> float:
    """On the fullest GPU."""
    return Room(on.model, on.tokens).total(replace(layout, **changes))
