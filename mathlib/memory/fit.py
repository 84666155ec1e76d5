"""Whether a step fits on a device, and the layouts that make room.

t tensor · p stages · b micro_batch · M bytes of a device · e bytes of a number
A device needs the most that is alive at one of a step's `moments`.
"""

from typing import Any

from mathlib.checks import instance, non_negative, one_of, positive, whole
from mathlib.compute import params
from mathlib.layout import stage_sizes
from mathlib.parts import Parts
from mathlib.records import dataclass, replace
from mathlib.specs import Device, Layout, Model, find_device, find_model, table
from mathlib.units import show


def training(
    model: str | Model,
    layout: Layout | None = None,
    *,
    stage: int | None = None,
    **options: Any,
) -> Parts:
    """Bytes a device needs in a step: the most that is alive at one of its `moments`,
    which the title names.

    `stage` None takes the fullest stage; all else goes to `moments`.  `buffers` are
    named bytes of your own (communication, fragmentation, context): no formula knows
    them. With ZeRO stages 2 and 3 it is coarser than `memory.zero_rank`, which follows
    the rows of a run without pipeline: of what is in flight it counts one gathered
    layer, for Llama 2 7B on 64 ranks in stage 3, all recomputed, 4.6 GB for 5.6.

    Chapter: memory
    Chapter: experts (eq-expert-states)
    """
    model = find_model(model)
    from mathlib.memory.one_device import moments  # `fits` needs none

    layout = Layout() if layout is None else instance("layout", layout, Layout)
    stages = _different_stages(model, layout) if stage is None else [stage]
    of_stages = [moments(model, layout, stage=i, **options) for i in stages]
    every = [one for of_stage in of_stages for one in of_stage.values()]
    return max(every, key=lambda one: one.total)


def gathered(model: str | Model, bytes_per_element: float = 2) -> dict[str, float]:
    """Bytes that FSDP holds whole on each device while a layer computes: the layer's matrices, and
    the ends, embedding and head with all norms, from forward to backward.

    Chapter: after (eq-adapters-gathered)
    """
    m, e = find_model(model), positive("bytes_per_element", bytes_per_element)
    body = sum(one.parameters for one in params.matrices(m)[:-1])
    return {"gathered layer": e * body / m.layers, "gathered ends": e * (params.total(m) - body)}


def sharded(
    model: str | Model,
    *,
    devices: int,
    micro_batch: int = 1,
    recompute: str = "none",
    **options: Any,
) -> Parts:
    """Bytes of one of some devices that share all states of full training, as FSDP does:
    `training` in ZeRO stage 3 with what is `gathered`. `options` go to `moments`.

    Chapter: after (eq-adapters-gathered)
    """
    how: dict[str, Any] = {"micro_batch": micro_batch, "recompute": recompute}
    if whole("devices", devices) == 1:
        return training(model, Layout(**how), **options)
    from mathlib.memory.one_device import moments

    every = moments(model, Layout(data=devices, zero=3, **how), stage=0, **options)
    held, found = gathered(model, options.get("bytes_per_element", 2)), []
    more = sum(held.values()) - every["end of forward"].amount("gathered layer")
    for one in every.values():
        beside = {"other gathered weights": more} if "gathered layer" in one else {}
        found.append(Parts(one.title, "byte", dict(one) | beside, one.binary))
    return max(found, key=lambda one: one.total)


def _different_stages(model: Model, layout: Layout) -> list[int]:
    """Stages that can be the fullest: with equal layers an inner one holds less than the first;
    where they are not equal, the second may have one more.
    """
    if model.experts:
        return list(range(layout.pipeline))
    first, most, _ = stage_sizes(model.layers, layout.pipeline)
    return sorted({0, layout.pipeline - 1} | ({1} if first < most else set()))


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
    """A verdict on whether bytes fit a device, less `reserve` for context and fragmentation.

    Of a device, or its name, the memory counts that the device itself reports, where that is known.

    Chapter: memory
    """
    if isinstance(memory, str):
        memory = find_device(one_of("memory", memory, table("devices")))
    there = memory.room if isinstance(memory, Device) else memory
    room = positive("memory", there) - non_negative("reserve", reserve)
    binary = isinstance(needed, Parts) and needed.binary
    total = needed.total if isinstance(needed, Parts) else non_negative("needed", needed)
    text = f"{show(total, 'byte', binary)} of {show(there, 'byte', binary)}"
    source = _reported(memory, binary) if isinstance(memory, Device) else ""
    source += f" less {show(reserve, 'byte', binary)} left for the rest" if reserve else ""
    if total <= room:
        free = show(room - total, "byte", binary)
        return Verdict(total, room, f"fits: {text}{source}, {free} free")
    worst = max(needed, key=needed.amount) if isinstance(needed, Parts) else ""
    largest = f"; most of it: {worst}" if worst else ""
    over = show(total - room, "byte", binary)
    return Verdict(total, room, f"does not fit: {text}{source}, {over} too much{largest}")


def _reported(device: Device, binary: bool) -> str:
    """Which memory was taken, where what a device reports is not what it is sold with."""
    if device.room == device.memory:
        return ""
    return f" (as {device.title} reports it; sold with {show(device.memory, 'byte', binary)})"


def largest_micro_batch(
    model: str | Model,
    layout: Layout,
    memory: float | str | Device,
    *,
    reserve: float = 0,
    **options: Any,
) -> int:
    """The most sequences a micro-batch can have, 0 when not even one fits. At every moment of a
    stage, bytes are linear in b; their maximum is not.

    Chapter: memory
    """
    from mathlib.memory.one_device import moments

    most, layout = [], instance("layout", layout, Layout)
    for i in _different_stages(find_model(model), layout):
        one, two = (
            moments(model, replace(layout, micro_batch=b), stage=i, **options) for b in (1, 2)
        )
        for name in one:
            room = fits(one[name], memory, reserve=reserve)
            grows = two[name].total - one[name].total
            if not room:
                return 0
            if grows:
                most.append(int((room.memory - room.needed) // grows) + 1)
    return min(most)
