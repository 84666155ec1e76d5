"""Bytes that a rank sends in a training step along each axis of a layout.

t tensor · cp context · ep expert · dp data · p pipeline · m micro_batches · e bytes of a number
Each axis by its own formula of `traffic.volumes`; what the first and the last stage do besides is
counted on them. Loads of experts are taken as equal.
"""

from typing import Any

from mathlib.checks import below, instance, positive, whole
from mathlib.layout import Layout
from mathlib.memory import activations, states
from mathlib.parts import Parts
from mathlib.specs import Model, find_model
from mathlib.traffic import comm, volumes

WORDS = {  # what tensor ranks send for the vocabulary, on the first stage and on the last
    "first": ("embedding", "gradient of the embedding"),
    "last": ("head", "loss", "gathering inputs again"),
}


def by_axis(
    model: str | Model,
    *,
    layout: Layout,
    tokens: int | None = None,
    stage: int = 0,
    bytes_per_element: float = 2,
    gradient_bytes: float | None = None,
) -> Parts:
    """A step's bytes of one rank of a stage: what tensor, context, expert, pipeline and
    data parallelism each send, added up. `gradient_bytes`: as wide as all else unless
    said.

    Chapter: together (eq-by-axis)
    """
    model, lay = find_model(model), instance("layout", layout, Layout)
    s = model.context if tokens is None else whole("tokens", tokens)
    e = positive("bytes_per_element", bytes_per_element)
    below("stage", stage, lay.pipeline)
    held = activations.layers_of(model, lay, stage)
    of = {"micro_batch": lay.micro_batch, "micro_batches": lay.micro_batches}
    how: dict[str, Any] = of | {"bytes_per_element": e}
    g = e if gradient_bytes is None else positive("gradient_bytes", gradient_bytes)
    found = {
        "tensor": _tensor(model, lay, held, stage, s // lay.context, how),
        "context": _context(model, lay, len(held), s, how),
        "expert": _expert(model, lay, _sparse(model, held), s, how),
        "pipeline": _pipeline(model, lay, stage, s // lay.context, how),
        **_data(model, lay, stage, e, g),
    }
    title = f"{model.title}: sent by a rank of stage {stage} in a step"
    return Parts(title, "byte", {axis: size for axis, size in found.items() if size})


def _context(model: Model, lay: Layout, layers: int, tokens: int, of: dict[str, Any]) -> float:
    """Keys and values of all layers, and their gradients."""
    if lay.context == 1:
        return 0.0
    of = of | {"context": lay.context, "tensor": lay.tensor, "recompute": lay.recompute}
    return volumes.context_parallel(model, tokens=tokens, layers=layers, **of).total


def _expert(model: Model, lay: Layout, layers: int, tokens: int, of: dict[str, Any]) -> float:
    """Tokens to experts and back, in the layers that have experts."""
    if not layers:
        return 0.0
    of = of | {"expert": lay.expert, "expert_tensor": lay.expert_split}
    of |= {"context": lay.context, "tensor": _split(lay), "recompute": lay.recompute}
    return volumes.expert_parallel(model, tokens=tokens, layers=layers, **of).total


def _pipeline(model: Model, lay: Layout, stage: int, tokens: int, of: dict[str, Any]) -> float:
    """What a stage passes on and back."""
    of = of | {"tensor": _split(lay), "scatter_gather": lay.sequence_parallel}
    of |= {"pipeline": lay.pipeline, "stage": stage, "chunks": lay.chunks}
    return volumes.pipeline_parallel(model, tokens=tokens, **of).total


def _split(lay: Layout) -> int:
    """Ranks that have a part of the tokens each between layers."""
    return lay.tensor if lay.sequence_parallel else 1


def _sparse(model: Model, held: list[int]) -> int:
    """Layers with experts."""
    return sum(activations.has_experts(model, i) for i in held) if model.experts else 0


def _tensor(
    model: Model, lay: Layout, held: list[int], stage: int, tokens: int, of: dict[str, Any]
) -> float:
    """Of attention and MLPs, where a layer has no routed experts alone, and of the vocabulary."""
    if lay.tensor == 1:
        return 0.0
    split: dict[str, Any] = {"sequence_parallel": lay.sequence_parallel, "tokens": tokens}
    of = of | split | {"tensor": lay.tensor, "regather": lay.sequence_parallel}
    half = volumes.tensor_parallel(model, layers=1, recompute=lay.recompute, **of).total / 2
    alone = 0 if model.experts and model.experts.shared else _sparse(model, held)
    words = volumes.vocabulary_parallel(model, loss_bytes=of["bytes_per_element"], **of)
    ends = [*WORDS["first"] * (stage == 0), *WORDS["last"] * (stage == lay.pipeline - 1)]
    return half * (2 * len(held) - alone) + sum(words.amount(n) for n in words if n in ends)


def _data(model: Model, lay: Layout, stage: int, e: float, g: float) -> dict[str, float]:
    """Gradients and weights over the ranks with the same ones; a tied table's once more."""
    own = states.stage_parameters(model, lay, stage)
    experts = own.amount("experts") if "experts" in own else 0.0
    tied = 0.0
    if model.tied and lay.pipeline - 1 > 0 and stage in (0, lay.pipeline - 1):
        tied = own.amount("embedding" if stage == 0 else "head") / (lay.shard if lay.zero else 1)
    groups = [(own.total - experts, lay.replicas, lay.shard)]
    groups += [(experts, lay.expert_replicas, lay.expert_shard)]
    how: dict[str, Any] = {"micro_batches": lay.micro_batches, "stage": lay.zero}
    how |= {"weight_bytes": e, "gradient_bytes": g}
    data = [
        volumes.zero(parameters=P, data=N, shard=S if lay.zero else 0, **how).total
        for P, N, S in groups
        if P and N > 1
    ]
    return {"data": sum(data), "tied table": comm.sent("all-reduce", payload=g * tied, ranks=2)}
