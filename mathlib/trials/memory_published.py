"""Memory that PyTorch allocated on eight B200s under Megatron-LM, beside the formula.

A step has four micro-batches of one sequence; bf16 with 32-bit gradients, ZeRO stage 1, a fused
loss, gate and attention.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import activations, one_device

RUNS = specs.table("allocated")
HOW: dict[str, Any] = {
    "recipe": "mixed-adam-fp32-gradients",
    "loss": "fused",
    "logits_bytes": 2,
    "fused_gate": True,
    "expert_results": False,
}


class Stage(NamedTuple):
    """Bytes of the fullest rank of a pipeline stage."""

    allocated: float
    reserved: float
    formula: float
    mended: float  # with an empty gradient for each shape of matrix, in place of a new one


def model_of(run: dict[str, Any], tokens: int) -> specs.Model:
    m = specs.find_model(run["model"])
    experts = m.experts and replace(m.experts, **run.get("experts", {}))
    return m.but(**run["shape"] | {"context": tokens}, experts=experts)


def with_empty(m: specs.Model, layout: specs.Layout, stage: int) -> float:
    """The most by the formula, with the empty tensors that Transformer Engine hands to autograd."""
    e, widths = m.experts, set[int]()
    for i in activations.layers_of(m, layout, stage):
        widths |= {e.width, e.shared * e.width} if e and e.at(i) else {m.ffn_width}
    inner = [one.inputs * one.outputs for one in params.matrices(m) if one.group == "attention"]
    empty = {"empty gradients": 2 * (sum(inner) + 3 * m.width * sum(widths)) / layout.tensor}
    points = one_device.moments(m, layout, stage=stage, buffers=empty, **HOW)
    twice = {name: one.amount("new gradients") for name, one in points.items() if "layer" in name}
    return max(one.total - twice.get(name, 0) for name, one in points.items())


def stages(run: dict[str, Any], tokens: int, cut: dict[str, Any], *gib: list[float]) -> list[Stage]:
    """The stages of one layout; `gib` are allocated and reserved."""
    m, split = model_of(run, tokens), cut.get("tensor", 1) > 1
    layout = specs.Layout(**cut, sequence_parallel=split, zero=1, micro_batches=4)
    found = []
    for i, (allocated, reserved) in enumerate(zip(*gib, strict=True)):
        points = one_device.moments(m, layout, stage=i, **HOW)
        formula = max(one.total for one in points.values())
        sizes = 2**30 * allocated, 2**30 * reserved
        found.append(Stage(*sizes, formula, with_empty(m, layout, i)))
    return found


def groups() -> dict[tuple[str, str], list[Stage]]:
    """All stages, by model and length of the sequences."""
    found: dict[tuple[str, str], list[Stage]] = {}
    for run in RUNS.values():
        for tokens, *row in [(4096, *one) for one in run["short"]] + run.get("long", []):
            place = run["title"], "4,096" if tokens == 4096 else "32,768 or more"
            found.setdefault(place, []).extend(stages(run, tokens, *row))
    return found


def beyond(found: list[Stage]) -> Iterator[list[float]]:
    """Percent by which formula and mended formula differ from what is allocated, and by which what
    is reserved differs from the formula.
    """
    for kind, base in (("formula", "allocated"), ("mended", "allocated"), ("reserved", "formula")):
        yield [100 * (getattr(one, kind) / getattr(one, base) - 1) for one in found]


def said(percent: list[float]) -> str:
    low, high = (f"{p:+.1f}".replace("-", "−") for p in (min(percent), max(percent)))
    return f"{low} to {high} %"


def rows() -> list[list[str]]:
    """Of each group: model, tokens, stages, and the three ranges."""
    return [
        [*place, str(len(found)), *map(said, beyond(found))] for place, found in groups().items()
    ]
