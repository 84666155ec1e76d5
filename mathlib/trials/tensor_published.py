"""Published runs that differ in their tensor-parallel degree, and what the model of a layer says.

t degree · X FLOP/s of a device · W bandwidth of the ring
Speeds are relative to the smallest degree that was run: what every degree pays alike cancels, what
replicas exchange does not. From 8 to 16 GPUs in two nodes the group itself comes to cross.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.specs import Cluster
from mathlib.traffic import tensor_time

ROWS = specs.table("rates")["tensor-degree"]
REACHED = 0.4  # of the peak in a matmul of a training step; an assumption
TOKENS = 4096
SHAPES = {"8B": "llama3-8b", "1B": "llama3.2-1b"}  # as published, by width
NODES = ("p4d.24xlarge", "dgx-a100", "p5.48xlarge", "dgx-b200")


def achieved(device: str) -> float:
    """FLOP/s that a device is taken to reach."""
    return REACHED * specs.find_device(device).flops_per_second("bf16")


def busy(model: str, cluster: str | Cluster, tensor: int, bandwidth: float = 0) -> float:
    """The share of a layer's time in which a rank computes, by bytes alone."""
    on = specs.find_cluster(cluster) if isinstance(cluster, str) else cluster
    W = bandwidth or tensor_time.ring_bandwidth(on, tensor)
    how: dict[str, Any] = {"tensor": tensor, "tokens": TOKENS, "bandwidth": W}
    return tensor_time.layer(model, achieved=achieved(on.device), **how).share("compute")


def relative(found: Sequence[tuple[int, float]]) -> dict[int, float]:
    """Speeds by degree, as shares of the first."""
    return {t: value / found[0][1] for t, value in found}


def nanotron() -> dict[int, tuple[float, float]]:
    """Speed of an H100 with Llama 3 8B by degree, beside that with 2: by the model, published. Of
    16 GPUs in two nodes, only a group of 16 crosses.
    """
    found = relative([(t, value) for t, value in ROWS["nanotron"]["8B"]])
    model = relative([(t, busy("llama3-8b", "p5.48xlarge", t)) for t in found])
    return {t: (model[t], found[t]) for t in found}


def megatron() -> dict[int, tuple[float, float]]:
    """The same of B200s of one node with 12 layers of Llama 3 70B; a step has four micro-batches
    for each replica of t GPUs, so that a GPU's speed goes with 1/(t seconds).
    """
    found = relative([(t, 1 / (t * seconds)) for t, seconds, _ in ROWS["megatron"]])
    model = relative([(t, busy("llama3-70b", "dgx-b200", t)) for t in found])
    return {t: (model[t], found[t]) for t in found}


class Lost(NamedTuple):
    """Shares of its speed that a GPU loses from 8 ranks to 16."""

    degree: float  # by the model, over a ring as fast as that of 8
    model: float  # by the model, over the ring that crosses
    published: float

    @property
    def explained(self) -> float:
        """The part of the published loss that bytes account for."""
        return self.model / self.published


def lost(name: str) -> Lost:
    """From one node of H100s to two, with a published model of 8B or 1B."""
    model, speeds = SHAPES[name], dict(ROWS["nanotron"][name])
    on = specs.find_cluster("p5.48xlarge")
    rings = [(8, 0.0), (16, tensor_time.ring_bandwidth(on, 8)), (16, 0.0)]
    eight, alike, crossing = (busy(model, on, t, W) for t, W in rings)
    return Lost(1 - alike / eight, 1 - crossing / eight, 1 - speeds[16] / speeds[8])


def steps() -> list[list[str]]:
    """Of each published model, what the step from 8 to 16 costs: two models, published."""
    return [[name, *(f"{share:.0%}" for share in lost(name))] for name in SHAPES]


def border(model: str) -> list[list[str]]:
    """Of each node: bandwidth of a ring of 8 and of 16, and the share of time a rank computes."""
    rows = []
    for name in NODES:
        on = specs.find_cluster(name)
        widths = [tensor_time.ring_bandwidth(on, t) / 1e9 for t in (8, 16)]
        shares = [busy(model, on, t) for t in (8, 16)]
        one_node = busy(model, on, 16, tensor_time.ring_bandwidth(on, 8))
        cells = [*(f"{w:.0f} GB/s" for w in widths), *(f"{s:.0%}" for s in (*shares, one_node))]
        rows.append([on.title, *cells])
    return rows


def by_degree(links: dict[str, tuple[str, float]]) -> dict[str, list[tuple[float, float]]]:
    """Percent of the time that an H100 sends, by degree, for models and bandwidths."""
    return {
        title: [(t, 100 * (1 - busy(model, "p5.48xlarge", t, W))) for t in (2, 4, 8, 16, 32)]
        for title, (model, W) in links.items()
    }


def asynchronous() -> list[list[str]]:
    """Tokens a second of a GPU, plain and asynchronous, and what that gained."""
    return [
        [
            model,
            str(gpus),
            precision,
            f"{plain:,.1f}",
            f"{hidden:,.1f}",
            f"{hidden / plain - 1:.0%}",
        ]
        for model, gpus, _, precision, plain, hidden in ROWS["async"]
    ]
