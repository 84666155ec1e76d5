"""ZeRO by published figures: Summit, H100s, public recipes, and DeepSpeed's estimator.

P parameters · N ranks · W bandwidth · X FLOP/s of a device
All of this is computed, nothing was run.
"""

from collections import Counter
from typing import Any

from mathlib import specs
from mathlib.compute import params
from mathlib.layout import Layout
from mathlib.memory import estimators, states, zero_rank
from mathlib.parts import Parts
from mathlib.plan import traffic
from mathlib.show import says
from mathlib.traffic import sharded_time

# GPT-NeoX-20B with stage 3 on Summit: six V100s a node, one sequence of 2,048 tokens a rank

NEOX = specs.find_model("gpt-neox-20b")
TENSORS, LAYERS = sum(params.tensors(NEOX).values()), NEOX.layers
SUMMIT = {  # 8 P T / X of compute, with everything recomputed; what its guide measures on the wire
    "parameters": NEOX.parameters,
    "stage": 3,
    "rank_tokens": 2048,
    "bandwidth": 23e9,
    "multiplier": 8,
}
SPEED, HOP = 35e12, 1e-5  # the middle of his 30 to 40 TFLOP/s; seconds a hop, assumed
WAYS: dict[str, dict[str, Any]] = {
    "bytes alone": {"hop": 0.0},
    "a message a layer": {"messages": LAYERS + 1},
    "a message a tensor": {},
}
COUNTS = [48 * 2**k for k in range(9)]  # GPUs; with fewer it would not fit


def tips(messages: int = TENSORS, hop: float = HOP, achieved: float = SPEED, **how: Any) -> int:
    """GPUs of Summit from which on communication takes half of a step; 0 is never."""
    run = SUMMIT | {"messages": messages, "latency": hop, "achieved": achieved} | how
    return traffic.tipping_point(devices_per_node=6, **run)  # type: ignore[arg-type]


def share_sent(ranks: int, messages: int = TENSORS, hop: float = HOP) -> float:
    """Percent of a step that is communication, with nothing hidden."""
    run = SUMMIT | {"messages": messages, "latency": hop, "achieved": SPEED}
    return 100 * (1 - traffic.step_time(data=ranks, **run).share("compute"))  # type: ignore[arg-type]


def curves() -> dict[str, list[tuple[float, float]]]:
    """The share that is communication against GPUs, by what travels at once."""
    return {name: [(n, share_sent(n, **how)) for n in COUNTS] for name, how in WAYS.items()}


def nccl_hop() -> float:
    """Seconds a hop by NCCL's own cost model; one hop in six leaves the node."""
    charged = specs.table("nccl")["ring Simple"]
    return (5 * charged["inside"] + charged["across"]) / 6


SPEEDS = (30e12, 35e12, 40e12)


def sensitivity(share: float) -> dict[float, list[int]]:
    """By seconds a hop, the GPUs from which on communication takes the share, by SPEEDS."""
    hops = (1.5e-5, 1e-5, 0.75e-5, nccl_hop())
    return {hop: [tips(hop=hop, achieved=X, share=share) for X in SPEEDS] for hop in hops}


def partly_recomputed() -> list[int]:
    """By SPEEDS, with a quarter of the layers' activations kept, for which a V100 has room."""
    return [tips(achieved=X, multiplier=7.5) for X in SPEEDS]


def room_on_a_v100(ranks: int) -> float:
    """Bytes of stage 3 with a quarter of the layers' activations kept."""
    layout = Layout(data=ranks, zero=3, recompute="full")
    peak = zero_rank.peak(NEOX, layout, scatter="reduce-scatter").total
    return peak + 34 * 2048 * NEOX.width * LAYERS / 4


NODES = {"summit": 35e12, "p4de.24xlarge": 0.0, "dgx-h100": 0.0}  # FLOP/s; 0: 40% of the peak


def tokens_needed() -> list[list[str]]:
    """A row a node: FLOP/s, bandwidth, and tokens at which communication takes half of a step."""
    chips = {"p4de.24xlarge": "a100-80gb", "dgx-h100": "h100-sxm"}
    rows = []
    for name, speed in NODES.items():
        node = specs.find_cluster(name)
        wire = SUMMIT["bandwidth"] if name == "summit" else node.node_bandwidth
        X = speed or 0.4 * specs.find_device(chips[name]).flops_per_second("bf16")
        tokens = traffic.even_tokens(stage=3, achieved=X, bandwidth=wire)  # type: ignore[arg-type]
        rows.append([node.title, says.speed(X), says.rate(wire), f"{tokens:,.0f}"])  # type: ignore[arg-type]
    return rows


# Llama 2 7B on 64 H100s, layer by layer on two clocks

H100 = 0.4 * specs.find_device("h100-sxm").flops_per_second("bf16")
SEVEN = params.count("llama2-7b").total


def enough_tokens(bandwidth: float = 400e9) -> float:
    """Tokens of a micro-batch with which every gather can hide."""
    return traffic.even_tokens(stage=3, achieved=H100, bandwidth=bandwidth)


def hides(tokens: float, bandwidth: float = 400e9, stage: int = 3, prefetch: int = 1) -> float:
    """The share of the communication that is hidden."""
    forward = 2 * SEVEN * tokens / H100
    return sharded_time.step(
        stage=stage,
        layers=32,
        ranks=64,
        latency=8e-6,
        weights=2 * SEVEN,
        forward=forward,
        backward=2 * forward,
        bandwidth=bandwidth,
        prefetch=prefetch,
    ).hidden


# Memory

GROUPS = {
    "optimizer states": ("master weights", "optimizer states"),
    "weights": ("live layer", "prefetched layers", "outside the layers"),
    "gradients": ("gradients that wait",),
    "in flight": ("rows in flight",),
    "activations": ("activations", "recomputation", "working tensors"),
}


def fullest(model: str, ranks: int = 64, stage: int = 3, **how: Any) -> Parts:
    """The fullest moment of a step with everything recomputed, by NCCL's reduce-scatter."""
    layout = Layout(data=ranks, zero=stage, micro_batch=1, recompute="full")
    return zero_rank.peak(model, layout, **{"scatter": "reduce-scatter"} | how)


def grouped(parts: Parts) -> Parts:
    """Few enough to tell apart; nothing is left out."""
    sums = {name: sum(parts.amount(part) for part in own) for name, own in GROUPS.items()}
    assert abs(sum(sums.values()) / parts.total - 1) < 1e-9
    return Parts(parts.title, "byte", sums)


def on_eight(stage: int, sequences: int, recompute: str = "none") -> float:
    """GB of Llama 2 7B on 8 ranks."""
    layout = Layout(data=8, zero=stage, micro_batch=sequences, recompute=recompute)
    return round(zero_rank.peak("llama2-7b", layout, scatter="reduce-scatter").total / 1e9, 1)


def stage_two_estimates(parameters: float = 7.5e9) -> dict[str, float]:
    """Bytes on one of 64 devices: the paper's, and DeepSpeed's in its documentation and code."""
    found = {"the paper: 2P + 14P/N": states.model_states(parameters, zero=2, shard=64).total}
    for version, said in (("docs", "documentation: 4P + 16P/N"), ("code", "code: 2P + 18P/N")):
        sizes = estimators.deepspeed_zero2(parameters, devices_per_node=8, nodes=8, version=version)
        found[f"DeepSpeed's {said}"] = sizes["device"]
    return found


def recipes() -> tuple[Counter, Counter, int]:
    """Stages that GPT-NeoX's public configurations name, how llm-foundry's shard, and how many of
    GPT-NeoX's have a pipeline of more than one stage.
    """
    public = specs.table("configurations")
    files = public["EleutherAI/gpt-neox"]["files"]
    foundry = public["mosaicml/llm-foundry"]["files"]
    deep = sum(file["pipe_parallel_size"] > 1 for file in files)
    return (
        Counter(file["zero_stage"] for file in files),
        Counter(file["sharding_strategy"] for file in foundry),
        deep,
    )
