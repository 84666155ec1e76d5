"""Bytes on one device in training: weights, gradients, master weights, optimizer states,
activations.

P parameters · t tensor · p stages · N data-parallel ranks · S ranks ZeRO shards over
M bytes of a device Tensor and pipeline divide first; ZeRO divides what is left by S, a degree of
the data axis, never by all devices.
GB is 1e9 bytes, GiB 2**30: `Parts(..., binary=True)` prints the latter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mathlib import activations, params, precision
from mathlib.checks import InputError, count, flag, instance, non_negative, one_of, positive
from mathlib.parts import Part, Parts
from mathlib.precision import Recipe
from mathlib.specs import Device, Layout, Model, device, table
from mathlib.specs import model as resolve
from mathlib.units import show

STATES = ("weights", "gradients", "master weights", "optimizer states")
SHARDED_FROM = {
    "optimizer states": 1,
    "master weights": 1,
    "gradients": 2,
    "weights": 3,
}  # ZeRO stage
ENDS = {"embedding": 0, "final": -1}  # norms outside the layers, and the stage that holds them
COLUMN = {
    "query",
    "key",
    "value",
    "gate",
    "up",
    "query up",
    "key-value up",
    "position",
}  # outputs split: biases too
ROW = {"output", "down"}  # inputs split: biases stay whole


def per_parameter(
    recipe: str | Recipe = "mixed-adam",
    *,
    zero: int = 0,
    shard: int = 1,
    shapes: Iterable[tuple[int, ...]] = (),
) -> Parts:
    """Bytes a device keeps of each parameter: 4 + 12, 4 + 12/S, 2 + 14/S, 16/S for stage 0 to 3
    (ZeRO, section 5).

    Stage 1 shards optimizer states and master weights over S ranks, stage 2 also gradients, stage 3
    also weights.
    """
    stage, s = one_of("zero", zero, (0, 1, 2, 3)), count("shard", shard)
    groups: dict[str, float] = dict.fromkeys(STATES, 0)
    widths = precision.bytes_per_parameter(recipe, shapes=shapes)
    for name in widths:
        group = (
            "gradients"
            if name == "main gradients"
            else name
            if name in STATES
            else "optimizer states"
        )
        groups[group] += widths.amount(name)
    shared = {
        name: width / s if s > 1 and stage >= SHARDED_FROM[name] else width
        for name, width in groups.items()
    }
    return Parts(
        f"{precision.recipe(recipe).title}, ZeRO stage {stage} over {s}: bytes per parameter",
        "byte",
        shared,
    )


def states(
    parameters: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    zero: int = 0,
    shard: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
    shapes: Iterable[tuple[int, ...]] = (),
    binary: bool = False,
) -> Parts:
    """Model states of one device: P / (t p) parameters, each as `per_parameter` (ZeRO, Table 1)."""
    psi = positive("parameters", parameters) / count("tensor", tensor) / count("pipeline", pipeline)
    each = per_parameter(recipe, zero=zero, shard=shard, shapes=shapes)
    parts = {name: psi * each.amount(name) for name in each}
    return Parts(
        f"Model states, ZeRO stage {zero} over {shard}", "byte", parts, flag("binary", binary)
    )


def largest_model(
    memory: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    zero: int = 0,
    shard: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
) -> float:
    """Parameters whose states alone fill a device: P = M t p / bytes per parameter (ZeRO, Table 2,
    left).
    """
    each = per_parameter(recipe, zero=zero, shard=shard).total
    return positive("memory", memory) * count("tensor", tensor) * count("pipeline", pipeline) / each


def checkpoint(
    parameters: float, *, recipe: str | Recipe = "mixed-adam", weights_only: bool = False
) -> Parts:
    """Bytes of a checkpoint: everything that lives from step to step, so no gradients; 14 P for
    mixed Adam.
    """
    kept = states(parameters, recipe=recipe)
    names = (
        ("weights",)
        if flag("weights_only", weights_only)
        else ("weights", "master weights", "optimizer states")
    )
    return Parts("Checkpoint", "byte", {name: kept[name] for name in names if kept[name]})


def adapters(
    parameters: float,
    trainable: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    base: str = "bf16",
    block: int = 0,
    second_block: int = 0,
) -> Parts:
    """LoRA and QLoRA: P frozen weights in type `base`, and all copies of the recipe for the
    trainable ones alone.

    `block` and `second_block` add the scales of a quantised base: QLoRA is nf4, 64, 256
    (arXiv:2305.14314).
    """
    frozen, own = (
        positive("parameters", parameters),
        states(positive("trainable", trainable), recipe=recipe),
    )
    parts: dict[str, Part] = {
        "frozen weights": frozen * precision.bytes_of(one_of("base", base, table("types")))
    }
    if count("block", block, least=0):
        bits = precision.scale_bits(
            block=block, scale_bits=8 if second_block else 32, second_block=second_block
        )
        parts["scales"] = frozen * bits / 8
    parts["adapters"] = Parts("adapters", "byte", own)
    return Parts("Frozen weights and adapters", "byte", parts)


def stage_parameters(model: str | Model, layout: Layout, stage: int = 0) -> Parts:
    """Parameters on one device of a stage, exact: embedding on the first, final norm and head on
    the last.

    Matrices split by t; norms, routers, positions, latents and the biases of row-split matrices
    stay whole on each.
    A tied head on another stage than the embedding is a second copy of the table.
    """
    model, layout = resolve(model), instance("layout", layout, Layout)
    t, p = layout.tensor, layout.pipeline
    held = activations.layers_of(model, layout, stage)
    dense = model.experts.dense_layers if model.experts else model.layers
    few = sum(i < dense for i in held)
    counts = {"attention": len(held), "mlp": few}
    *body, head = params.matrices(model)
    table, norms = model.padded_vocab * model.width, params.count(model)["norms"]
    parts: dict[str, float] = {}
    if stage == 0:
        parts["embedding"] = table / t
        if model.positions == "learned":
            parts["positions"] = params.count(model).amount("positions")
    if model.positions == "relative":
        parts["positions"] = params.count(model).amount("positions") * len(held) / model.layers / t
    for m in body:
        each = _on_device(m, model, t) * counts.get(m.group, len(held) - few)
        parts[m.group] = parts.get(m.group, 0) + each
    assert isinstance(norms, Parts)
    at_ends = {name: stage == at % p for name, at in ENDS.items()}
    parts["norms"] = sum(norms.amount(n) * at_ends.get(n, len(held) / model.layers) for n in norms)
    if stage == p - 1:
        own = 0 if model.tied and p == 1 else table
        parts["head"] = (own + model.head_bias * model.padded_vocab) / t
    whole = {name: int(n) if n == int(n) else n for name, n in parts.items() if n}
    return Parts(f"Parameters of {model.name} on a device of stage {stage}", "parameter", whole)


def _on_device(m: params.Matrix, model: Model, t: int) -> float:
    """Parameters of one layer's matrix that a tensor rank holds."""
    weight, bias = m.copies * m.inputs * m.outputs, m.copies * m.bias * m.outputs
    if m.name in ("key", "value"):  # a device holds at least one head
        return (weight + bias) * -(-model.kv_heads // t) / model.kv_heads
    if m.name in COLUMN:
        return (weight + bias) / t
    return weight / t + bias if m.name in ROW else weight + bias


def training(
    model: str | Model,
    layout: Layout | None = None,
    *,
    recipe: str | Recipe = "mixed-adam",
    stage: int | None = None,
    buffers: dict[str, float] | None = None,
    binary: bool = False,
    **activation: Any,
) -> Parts:
    """Bytes a device needs at most in a step: states + activations + one layer recomputed or
    gathered + buffers.

    A bound: not all of it is alive at once (the head's part is gone when the first layers are
    recomputed).
    `stage` None takes the fullest stage. `activation` goes to `activations.stage`: attention,
    dropout, tokens, ...
    `buffers` are named bytes of your own (communication, fragmentation, context): no formula knows
    them.
    """
    model, layout = (
        resolve(model),
        Layout() if layout is None else instance("layout", layout, Layout),
    )
    if stage is None:
        every = [
            training(
                model, layout, recipe=recipe, stage=i, buffers=buffers, binary=binary, **activation
            )
            for i in _different_stages(model, layout)
        ]
        return max(every, key=lambda one: one.total)
    own = stage_parameters(model, layout, stage)
    kept = states(own.total, recipe=recipe, zero=layout.zero, shard=layout.shard)
    parts: dict[str, Part] = dict(kept.items())
    parts["activations"] = activations.stage(model, layout, stage=stage, **activation)
    if layout.recompute != "none":
        parts["recomputation"] = _recomputed(model, layout, activation)
    if layout.zero == 3 and layout.shard > 1:
        parts["gathered layer"] = _gathered(model, layout.tensor, own, recipe)
    for name, size in ({} if buffers is None else instance("buffers", buffers, dict)).items():
        parts[name] = non_negative(f"buffers[{name!r}]", size)
    return Parts(
        f"{model.name}, training on a device of stage {stage}",
        "byte",
        parts,
        flag("binary", binary),
    )


def _different_stages(model: Model, layout: Layout) -> list[int]:
    """Stages that can be the fullest: with equal layers an inner one holds less than the first."""
    return list(range(layout.pipeline)) if model.experts else sorted({0, layout.pipeline - 1})


def _gathered(model: Model, tensor: int, own: Parts, recipe: str | Recipe) -> float:
    """Bytes of whole weights and whole gradients that ZeRO-3 holds for the largest layer or table
    while it computes.
    """
    groups: dict[str, float] = {}
    for m in params.matrices(model)[:-1]:
        groups[m.group] = groups.get(m.group, 0) + _on_device(m, model, tensor)
    norms = params.count(model)["norms"]
    assert isinstance(norms, Parts)
    shared = (
        groups.pop("attention")
        + sum(norms.amount(n) for n in norms if n not in ENDS) / model.layers
    )
    layers = [shared + groups.pop("mlp", 0), shared + sum(groups.values())]
    each = per_parameter(recipe)
    ends = [own.amount(name) for name in ("embedding", "head") if name in own]
    return (each.amount("weights") + each.amount("gradients")) * max([*layers, *ends])


def _recomputed(model: Model, layout: Layout, options: Mapping[str, Any]) -> float:
    """Bytes that one layer's recomputation brings back while its backward pass runs: what it did
    not keep.
    """
    settings: dict[str, Any] = {
        "micro_batch": layout.micro_batch,
        "tensor": layout.tensor,
        "sequence_parallel": layout.sequence_parallel,
        "index": model.layers - 1,
        **options,
    }
    for name in ("schedule", "logits_bytes"):
        settings.pop(name, None)
    everything = activations.layer(model, **settings).total
    return everything - activations.layer(model, recompute=layout.recompute, **settings).total


@dataclass(frozen=True)
class Verdict:
    """Whether something fits, in numbers and in words; true when it does."""

    needed: float  # bytes
    memory: float  # bytes
    text: str

    def __bool__(self) -> bool:
        return self.needed <= self.memory

    def __str__(self) -> str:
        return self.text


def fits(needed: Parts | float, memory: float | str | Device, *, reserve: float = 0) -> Verdict:
    """Whether bytes fit a device, less `reserve` for context and fragmentation; a device may be
    named.
    """
    if isinstance(memory, str):
        memory = device(one_of("memory", memory, table("devices")))
    there = memory.memory if isinstance(memory, Device) else memory
    room = positive("memory", there) - non_negative("reserve", reserve)
    binary = isinstance(needed, Parts) and needed.binary
    total = needed.total if isinstance(needed, Parts) else non_negative("needed", needed)
    text = f"{show(total, 'byte', binary)} of {show(room, 'byte', binary)}"
    if total <= room:
        return Verdict(total, room, f"fits: {text}, {show(room - total, 'byte', binary)} free")
    worst = max(needed, key=needed.amount) if isinstance(needed, Parts) else ""
    largest = f"; most of it: {worst}" if worst else ""
    return Verdict(
        total, room, f"does not fit: {text}, {show(total - room, 'byte', binary)} too much{largest}"
    )


def smallest(
    model: str | Model,
    layout: Layout,
    memory: float | str | Device,
    *,
    vary: str = "shard",
    reserve: float = 0,
    **options: Any,
) -> Layout:
    """The layout with the smallest degree of `vary` (shard, zero, tensor, pipeline, recompute)
    whose training fits.

    Start with the smallest degree and raise it until the model fits: every degree costs
    communication.
    """
    model, layout = resolve(model), instance("layout", layout, Layout)
    choices: dict[str, list[Any]] = {
        "shard": [d for d in range(1, layout.data + 1) if layout.data % d == 0],
        "zero": [0, 1, 2, 3],
        "tensor": [t for t in range(1, model.heads + 1) if model.heads % t == 0],
        "pipeline": [
            p for p in range(1, model.layers + 1) if model.layers % (p * layout.chunks) == 0
        ],
        "recompute": ["none", "selective", "full"],
    }
    last = None
    for value in choices[one_of("vary", vary, choices)]:
        try:
            tried = replace(layout, **{vary: value})
        except InputError:  # interleaving accepts only some stages
            continue
        last = fits(training(model, tried, **options), memory, reserve=reserve)
        if last:
            return tried
    raise InputError(
        f"vary = {vary!r}: no degree makes {model.name} fit; at the last one, it {last}"
    )


def largest_micro_batch(
    model: str | Model,
    layout: Layout,
    memory: float | str | Device,
    *,
    reserve: float = 0,
    **options: Any,
) -> int:
    """The most sequences a micro-batch can have, 0 when not even one fits. A stage's bytes are
    linear in b.
    """
    most, layout = [], instance("layout", layout, Layout)
    for i in _different_stages(resolve(model), layout):
        one, two = (
            training(model, replace(layout, micro_batch=b), stage=i, **options).total
            for b in (1, 2)
        )
        room = fits(one, memory, reserve=reserve).memory
        most.append(int((room - one) // (two - one)) + 1 if one <= room else 0)
    return min(most)
