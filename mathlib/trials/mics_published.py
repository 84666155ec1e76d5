"""SageMaker's page in figures: GPT-NeoX 20B on p4d nodes, its reference configurations, SMDDP.

P parameters · N ranks · S ranks of a sharding group · m micro-batches of a step
All of this is computed, nothing was run.
"""

from itertools import starmap
from typing import Any

from mathlib import specs
from mathlib.compute import params
from mathlib.layout import Layout
from mathlib.memory import fit, zero_rank
from mathlib.parts import Parts
from mathlib.plan import degree, smddp
from mathlib.show import says
from mathlib.traffic import hierarchical

NEOX = specs.find_model("gpt-neox-20b")
NEOX_65B = NEOX.but(layers=80, width=8192, parameters=0)  # the page gives no shape
P, DEGREES = params.count(NEOX).total, (8, 16, 32, 64)
NODE, LINK = 8, specs.find_cluster("p4d.24xlarge").node_bandwidth


def leaves(S: int, m: int = 1, rings: bool = False) -> Parts:
    """Bytes that each of eight nodes sends to others in a step of 20B; with rings nothing is
    hierarchical.
    """
    how: dict[str, Any] = {"gather": "ring", "scatter": "ring"} if rings else {}
    return hierarchical.step(
        payload=2 * P, ranks=64, shard=S, ranks_per_node=NODE, micro_batches=m, **how
    )


def computes(sequences: int, tokens: int = 2048) -> float:
    """Seconds at the full peak of an A100, everything recomputed: 8 P D / X."""
    peak: float = specs.find_device("a100-40gb").flops_per_second("bf16")
    return 8 * P * sequences * tokens / peak


def seconds() -> list[list[str]]:
    """A row a degree: the least time in which a node sends, hierarchically and by rings."""
    return [
        [f"{S}", *(f"{leaves(S, rings=way).total / LINK:.1f} s" for way in (False, True))]
        for S in DEGREES
    ]


def same_batch() -> list[list[str]]:
    """A row a degree: what a node sends for 12 sequences of each GPU, as many at once as fit."""
    cases = ((16, 2), (32, 1), (64, 1))
    return [
        [f"{S}", f"{m} × {12 // m}", *(says.size(leaves(S, m, way).total) for way in (False, True))]
        for S, m in cases
    ]


# The page's reference configurations: nodes, sequence length, batch, a rank's, degree, tensor

ROWS = {
    "20B on 2": (NEOX, 2, 2048, 64, 4, 16, 1),
    "20B on 8": (NEOX, 8, 2048, 768, 12, 32, 1),
    "65B, tensor 8": (NEOX_65B, 64, 2048, 512, 8, 16, 8),
    "65B, tensor 2": (NEOX_65B, 64, 4096, 512, 2, 64, 2),
}
# Of an A100's 40 GB, PyTorch reports 39.45 GiB; 2 GB are for what no formula knows
ROOM, RESERVE = 39.45 * 2**30, 2e9
HOW: dict[str, Any] = {"recipe": "mixed-adam", "keep_half": True, "attention": "flash"}
GROUPS = {
    "model states": ("weights", "master weights", "optimizer states", "gradients"),
    "activations": ("activations", "recomputation", "working tensors", "gradients of logits"),
}


def needed(name: str, recompute: str = "full", **other: Any) -> Parts:
    """The fullest moment of a rank in one of the page's configurations."""
    model, nodes, tokens, _, b, S, t = ROWS[name]
    layout = Layout(
        data=NODE * nodes // t, tensor=t, shard=S, zero=3, micro_batch=b, recompute=recompute
    )
    return zero_rank.peak(model, layout, tokens=tokens, **HOW | other)


def fits(parts: Parts) -> bool:
    return bool(fit.fits(parts, ROOM, reserve=RESERVE))


def grouped(parts: Parts) -> dict[str, float]:
    """Few enough to tell apart; nothing is left out."""
    found = {k: sum(parts.amount(p) for p in own if p in parts) for k, own in GROUPS.items()}
    return found | {"live weights": parts.total - sum(found.values())}


def chosen(name: str, least: int) -> Layout:
    """By the page's advice: the smallest degree that holds the batch, then the largest batch."""
    model, nodes, tokens, *_, t = ROWS[name]
    layout = Layout(data=NODE * nodes // t, tensor=t, recompute="full")
    return degree.choose(
        model, layout, ROOM, reserve=RESERVE, micro_batch=least, tokens=tokens, **HOW
    ).layout


def advised() -> list[list[str]]:
    """A row a question: the configuration, sequences wanted, the page's degree, what is found."""
    wanted = [("20B on 2", 1), ("20B on 8", 1), *((name, row[4]) for name, row in ROWS.items())]
    found = list(starmap(chosen, wanted))
    return [
        [name, f"{least}", f"{ROWS[name][5]}", f"{one.shard}", f"{one.micro_batch}"]
        for (name, least), one in zip(wanted, found, strict=True)
    ]


# Which library gathers


def back_end(S: int, nodes: int, numbers: int, **how: Any) -> str:
    """Who gathers a tensor of so many 16-bit numbers, by the page's rule."""
    return smddp.back_end(shard=S, nodes=nodes, gather_input=2 * numbers / S, **how).name


def served(S: int, nodes: int, **buffers: Any) -> float:
    """The share of 20B's parameters that SMDDP gathers, if each tensor is gathered by itself."""
    sizes = {size: n for size, n in params.tensors(NEOX).items() if size >= 1e6}
    by = [n * size for size, n in sizes.items() if back_end(S, nodes, size, **buffers) == "smddp"]
    return sum(by) / sum(n * size for size, n in sizes.items())
