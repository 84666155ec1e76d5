"""Whether a step fits on a device: all its bytes together, and the layouts that make room.

P parameters · t tensor · p stages · N data-parallel ranks · S ranks ZeRO shards over
M bytes of a device
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mathlib.checks import InputError, flag, instance, non_negative, one_of, positive
from mathlib.compute import params
from mathlib.memory import activations
from mathlib.memory.precision import Recipe
from mathlib.memory.states import ENDS, _on_device, model_states, per_parameter, stage_parameters
from mathlib.parts import Part, Parts
from mathlib.specs import Device, Layout, Model, find_device, find_model, table
from mathlib.units import show


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
        find_model(model),
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
    kept = model_states(own.total, recipe=recipe, zero=layout.zero, shard=layout.shard)
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
        memory = find_device(one_of("memory", memory, table("devices")))
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
    model, layout = find_model(model), instance("layout", layout, Layout)
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
    for i in _different_stages(find_model(model), layout):
        one, two = (
            training(model, replace(layout, micro_batch=b), stage=i, **options).total
            for b in (1, 2)
        )
        room = fits(one, memory, reserve=reserve).memory
        most.append(int((room - one) // (two - one)) + 1 if one <= room else 0)
    return min(most)
