"""What others print of expert parallelism, beside the formulas."""

from typing import Any, NamedTuple

from mathlib import specs
from mathlib.compute import flops, params, roofline
from mathlib.memory import fit, states
from mathlib.parts import Parts
from mathlib.schedule import expert_load
from mathlib.specs import Layout
from mathlib.traffic import expert_time, volumes

ROWS = specs.table("rates")["experts"]
MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")
DENSE = ("llama2-13b", "llama3-8b")


# From a dense MLP to experts


def sizes(*names: str) -> list[list[str]]:
    """Of each model: experts, parameters in all and of a token, GFLOP of a token's forward."""
    rows = []
    for name in names or MODELS:
        model = specs.find_model(name)
        e = model.experts
        total, active = params.total(model), params.active(model).total
        done = flops.forward(model, tokens=1).total
        cells = [f"{total / 1e9:.1f} B", f"{active / 1e9:.1f} B", f"{done / 1e9:.1f}"]
        rows.append([model.title, f"{e.active} of {e.routed}" if e else "none", *cells])
    return rows


# Memory and speed by GPUs: Qwen3 30B-A3B


def scaling() -> dict[str, tuple[float, float]]:
    """GiB of a GPU that N save over 8: by the planner's formula, experts over 8 and all states
    sharded, several micro-batches; as printed.
    """
    (first, _, most), *others = ROWS["scaling"]
    start = _needed(first).total
    return {
        f"{gpus} GPUs": ((start - _needed(gpus).total) / 2**30, most - gib)
        for gpus, _, gib in others
    }


def whole() -> tuple[float, float]:
    """GiB of one of 128: states and a gathered layer by the planner, and for each sequence what two
    more of them are printed to need; as printed.
    """
    (few, printed), (many, more) = ROWS["sequences"]
    needed = _needed(128)
    kept = ("weights", "optimizer states", "gradients", "gathered layer")
    planned = sum(needed.amount(one) for one in kept) / 2**30
    return planned + few * (more - printed) / (many - few), printed


def _needed(gpus: int) -> Parts:
    way = Layout(data=gpus, expert=8, zero=3, micro_batch=8, micro_batches=4)
    return fit.training("qwen3-30b-a3b", way, recipe="adam-fp32", tokens=4096)


def kept_speed() -> dict[int, float]:
    """A GPU's speed with N as a share of that with 8."""
    (_, first, _), *others = ROWS["scaling"]
    return {gpus: speed / first for gpus, speed, _ in others}


class Faster(NamedTuple):
    """Two ways to say what 14,796 tokens a second are beside 9,930."""

    more: float  # tokens in the same time
    less: float  # time for the same tokens


def faster() -> Faster:
    ours, stock = ROWS["beside"]
    return Faster(ours / stock - 1, 1 - stock / ours)


# Bandwidth that counts what stays


class Row(NamedTuple):
    """GB/s as printed, and what of it leaves the node."""

    name: str
    nodes: int
    printed: float
    wire: float


def bandwidths(version: str) -> list[Row]:
    """Dispatch and combine by nodes of 8 GPUs: 1/n of what a token's copies weigh stays."""
    rows = []
    for chip, nodes, *both in ROWS[version]:
        for way, printed in zip(("dispatch", "combine"), both, strict=True):
            rows.append(Row(f"{chip}, {way}", nodes, printed, printed * (nodes - 1) / nodes))
    return rows


CARD = 50.0  # GB/s: 400 Gbit/s


# Expert or tensor parallelism


def either(name: str, ranks: int) -> tuple[float, float, float]:
    """Bytes of a step's experts over these ranks beside those of the same experts in parts: by the
    formula, by k/P, and if a token were sent but once to each rank.
    """
    model = specs.find_model(name)
    e = model.experts
    assert e
    how: dict[str, Any] = {"tokens": 4096, "layers": 1}
    whole = volumes.expert_parallel(model, expert=ranks, **how).total
    parts = volumes.expert_parallel(model, expert=1, expert_tensor=ranks, **how).total
    once = expert_load.ranks_visited(experts=e.routed, active=e.active, ranks=ranks)
    return whole / parts, e.active / ranks, whole / parts * once / e.active


def mixtral() -> tuple[float, float, float]:
    """GB that a rank sends in a step of Mixtral 8x7B's layers, 4,096 tokens: experts over 8 ranks;
    over 4 in two parts that gather tokens before routing; and that gather routed rows.
    """
    model, tokens = specs.find_model("mixtral-8x7b"), 4096
    assert model.experts
    ways: list[dict[str, Any]] = [{"expert": 8}, {"expert": 4, "expert_tensor": 2}, {"expert": 4}]
    found = [volumes.expert_parallel(model, tokens=tokens, **way).total / 1e9 for way in ways]
    rows = model.expert_layers * model.experts.active * tokens  # of visits, to one other rank
    return found[0], found[1], found[2] + 4 * 2 * model.width * rows / 1e9


def matrices(name: str, ranks: int, tokens: int = 4096) -> list[list[str]]:
    """What a rank multiplies: experts, rows of each, shape of its first matrix, what share of an
    H100's peak that allows at most; whole, in parts.
    """
    model = specs.find_model(name)
    e = model.experts
    assert e
    rows = ranks * tokens * e.active // e.routed
    shapes = ((e.routed // ranks, e.width), (e.routed, e.width // ranks))
    device, found = specs.find_device("h100-sxm"), []
    peak = device.flops_per_second("bf16")
    for n, wide in shapes:
        intensity = roofline.intensity(rows=rows, inner=model.width, columns=wide)
        most = min(1.0, intensity * device.memory_bandwidth / peak)
        found.append([f"{n:,}", f"{rows:,}", f"{model.width:,} × {wide:,}", f"{most:.0%}"])
    return found


LINKS = {"NVLink, 450 GB/s": 450e9, "network card, 50 GB/s": 50e9}
REACHED = 400e12  # FLOP/s of an H100, 40% of its peak; an assumption


def waits(ranks: int = 8) -> list[list[str]]:
    """Of each model: width of an expert, and sending over computing on an H100 over each link."""
    rows = []
    for name in MODELS:
        model = specs.find_model(name)
        assert model.experts
        f = model.experts.width
        how: dict[str, Any] = {"ffn_width": f, "expert": ranks, "achieved": REACHED}
        found = [expert_time.ratio(bandwidth=W, **how) for W in LINKS.values()]
        rows.append([model.title, f"{f:,}", *(f"{one:.2f}" for one in found)])
    return rows


def degrees(name: str = "qwen3-30b-a3b", gpus: int = 16, node: int = 8) -> list[list[str]]:
    """By expert-parallel degree: parameters of a rank, GB of its states (16-bit weights and
    gradients, ZeRO 1 for 12 bytes more), share of time that experts wait on H100s: over network
    cards for the rows that cross nodes, which take longest.
    """
    model, rows, degree = specs.find_model(name), [], 1
    assert model.experts
    while degree <= gpus:
        own = states.stage_parameters(model, Layout(data=gpus, expert=degree)).total
        gigabytes = (4 * own + 12 * model.parameters / gpus) / 1e9
        nodes, (inside, across) = degree // node, LINKS.values()
        among, W = (nodes, across) if nodes > 1 else (degree, inside)
        how: dict[str, Any] = {"ffn_width": model.experts.width, "expert": among, "bandwidth": W}
        rho = expert_time.ratio(achieved=REACHED, **how)
        cells = (str(degree), f"{own / 1e9:.1f} B", f"{gigabytes:.0f} GB", f"{rho / (1 + rho):.0%}")
        rows.append(list(cells))
        degree *= 2
    return rows
