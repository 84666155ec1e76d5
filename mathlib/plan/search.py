"""The quickest of all layouts that fit a cluster, and why the others are not.

n devices · B sequences · b micro_batch
What layouts have in common is asked once: memory first, and the time only of those that fit.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from mathlib.checks import InputError, below, flag, instance, non_negative, one_of, positive, whole
from mathlib.layout import RECOMPUTE
from mathlib.plan.adapted import NEEDS, refuse_split
from mathlib.plan.calibration import Interval, most_needed, out_of_memory
from mathlib.plan.room import HELD, Copies, Room, find_keeps
from mathlib.plan.step import NAMES, Machine, interval, seconds_of, times_of
from mathlib.plan.ways import Family, Shard, families_of, meshes_of, sharded
from mathlib.plan.work import OFFLOAD, Away, Way
from mathlib.records import dataclass, replace
from mathlib.specs import Layout
from mathlib.units import show

AXES = (
    *("tensor", "context", "expert", "pipeline", "chunks", "data", "zero", "shard"),
    *("micro_batch", "recompute"),
)
TOGETHER = (  # axes whose values are kept together while a search runs, for speed
    ("zero", "shard"),
    ("tensor", "context", "pipeline", "data"),
    ("chunks", "expert"),
    ("micro_batch", "recompute"),
)
_values = [attrgetter(*axes) for axes in TOGETHER[1:]]
LIKELY = 0.1  # a chance that is worth saying
OFTEN = 10_000  # layouts between two reports
KEPT = 500  # of the quickest, among which those that differ in their mix are looked for
MOST_DEVICES = 2**20  # whose divisors are gone through in seconds
HOST = "the host's memory"


@dataclass(frozen=True)
class Choice:
    """A layout, and what it takes."""

    layout: Layout
    seconds: float  # of a step
    memory: float  # bytes on the fullest device
    reason: str = ""  # why it is not the best
    offload: str = "none"  # what waits in the host's memory: states, activations, both
    risk: float = 0.0  # the chance of running out of memory, of runs that were predicted like it

    def __str__(self) -> str:
        lay = self.layout
        neutral = {"zero": 0, "shard": lay.replicas, "recompute": "none"}
        named = [a for a in AXES if getattr(lay, a) != neutral.get(a, 1)]
        words = [f"{axis} {getattr(lay, axis)}" for axis in named]
        words += [f"offload {self.offload}"] if self.offload != "none" else []
        axes = ", ".join(words)
        how = f"{show(self.seconds, 'second')}, {show(self.memory, 'byte')}"
        how += f" ({self.risk:.0%} that it is too much)" if self.risk > LIKELY else ""
        return f"{axes or 'one device'}: {how}" + (f"; {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Ranking:
    """What a search found; true when a layout fits."""

    choices: list[Choice]  # the quickest first
    tried: int  # layouts in all
    fitting: int  # of them fit
    between: Interval | None  # 80% prediction interval of the best one's time
    best_with: dict[str, dict[object, Choice]]  # axis, value: the quickest with it
    full: dict[str, int]  # what fills the device, of so many that do not fit
    complete: bool = True  # False: the search was stopped, and this is the best until then

    def __bool__(self) -> bool:
        return bool(self.choices)

    def __str__(self) -> str:
        if not self.tried and self.complete:
            return (
                "no layout is as asked: degrees multiply to the devices, replicas divide the batch"
            )
        if not self.choices:
            most = max(self.full, key=lambda name: self.full[name], default="nothing")
            return f"none of {self.tried:,} layouts fits; mostly too much: {most}"
        stopped = "" if self.complete else "; the search was stopped"
        head = f"{self.tried:,} layouts, {self.fitting:,} fit{stopped}"
        return "\n".join([head, *map(str, self.choices)])


@dataclass(frozen=True)
class Progress:
    """How far a search is."""

    share: float  # of the degrees that multiply to the devices
    tried: int  # layouts
    fitting: int  # of them fit
    seconds: float  # of a step of the quickest so far; 0: none fits yet


_One = tuple[float, float, Way, Shard, str]  # less seconds, less bytes: the best is the most


def search(
    on: Machine,
    *,
    devices: int,
    sequences: int,
    memory: float | None = None,
    reserve: float = 4e9,
    recipe: str | None = None,
    micro_batch: int = 8,
    most: int = 10,
    program: str = "megatron-core",
    risk: float | None = None,
    variants: bool = True,
    first: bool = False,
    only: Mapping[str, object] | None = None,
    at_most: Mapping[str, object] | None = None,
    tell: Callable[[Progress], object] | None = None,
) -> Ranking:
    """The quickest layouts for B sequences a step on n devices, of all that fit.

    A layout whose bytes exceed the device's, less `reserve` for context, buffers and fragments, is
    left out; `memory` None: what the device reports. With `risk` one is left out, too, whose chance
    of running out of memory is above that. `program` says what is kept, unless `recipe` does, and
    gives the interval of the best one. Without `variants` the quickest stands for each mix of
    tensor, pipeline, expert and ZeRO degrees, as near the top many layouts differ in little else.
    Where `on` has a host, states and activations may also wait
    in its memory.
    `only` keeps layouts with these values of their axes, `at_most` with no greater ones.
    `tell` hears how far it is and ends it by returning False; so does Ctrl-C, and with `first` the
    first that fits. What was found until then is the answer, and says so.

    Chapter: planning
    """
    on, n, B = instance("on", on, Machine), whole_devices(devices), whole("sequences", sequences)
    left, room = bytes_left(on, memory, reserve), memory_of(on, recipe, program)
    program = NEEDS if on.adapters else program
    limit = bytes_at_risk(left, risk, program)
    exact, highest = axis_values("only", only), axis_values("at_most", at_most)
    if on.adapters:
        refuse_split(exact)
    on = replace(on) if exact or highest else on  # which remembers all that it was asked
    found = _Found(whole("most", most), flag("variants", variants))
    near = on.cluster.devices_per_node
    b, meshes = whole("micro_batch", micro_batch), meshes_of(on.model, on.tokens, n, near)
    families = (
        (i / len(meshes), (*family, offload))
        for i, mesh in enumerate(meshes)
        for every in families_of(on.model, mesh, near, B, b)
        if on.takes(every[0])
        for family in ways_within(every, exact, highest)
        for offload in (OFFLOAD if on.host else ("none",))
    )
    if tell is not None and not callable(tell):
        raise InputError(f"tell = {tell!r}: expected a function of a search.Progress")
    stop = flag("first", first)
    try:
        complete = _look_at_all(on, room, limit, found, families, stop, tell)
    except KeyboardInterrupt:
        complete = False
    return found.ranking(on, left, program, complete)


def axis_values(name: str, values: Mapping[str, object] | None) -> dict[str, object]:
    """Values of axes, refused where there is no such axis or it has no such value."""
    if not isinstance(values or {}, Mapping):
        raise InputError(f"{name} = {values!r}: expected values of axes, as in {{'zero': 3}}")
    found: dict[str, object] = {}
    for axis, value in (values or {}).items():
        one_of(name, axis, AXES if name == "only" else AXES[:-1])
        if axis == "recompute":
            found[axis] = one_of(axis, value, RECOMPUTE)
        else:
            found[axis] = below(axis, value, 4) if axis == "zero" else whole(axis, value)
    return found


def ways_within(
    family: Family, exact: dict[str, object], highest: dict[str, Any]
) -> Iterator[tuple[Way, list[Shard]]]:
    """The ways of a family that keep to what was asked, if any does."""
    if not exact and not highest:
        yield family
        return
    way, shards = family
    kept = []
    for zero, shard in shards:
        one = way._asdict() | {"zero": zero, "shard": shard}
        if all(one[axis] == value for axis, value in exact.items()) and all(
            one[axis] <= value for axis, value in highest.items()
        ):
            kept.append((zero, shard))
    if kept:
        yield way, kept


def _mixes(ordered: list[_One]) -> list[_One]:
    """The first of each mix of tensor, pipeline, expert and ZeRO degrees."""
    firsts: dict[tuple[int, ...], _One] = {}
    for one in ordered:
        firsts.setdefault((one[2].tensor, one[2].pipeline, one[2].expert, one[3][0]), one)
    return list(firsts.values())


def _look_at_all(
    on: Machine,
    room: Room,
    left: float,
    found: "_Found",
    families: Iterator[tuple[float, tuple[Way, list[Shard], str]]],
    first: bool,
    tell: Callable[[Progress], object] | None,
) -> bool:
    """Whether nobody stopped it."""
    told = 0
    for share, family in families:
        found.look(on, room, left, *family)
        if first and found.fitting:
            return False
        if tell and found.tried - told >= OFTEN:
            told = found.tried
            if tell(found.progress(share)) is False:
                return False
    return True


def memory_of(on: Machine, recipe: str | None, program: str) -> Room:
    """Memory as a program fills it."""
    return on.filled(recipe, find_keeps(program))


def bytes_left(on: Machine, memory: float | None, reserve: float) -> float:
    """Bytes that a layout may take."""
    there = on.device.room if memory is None else positive("memory", memory)
    if there <= non_negative("reserve", reserve):
        raise InputError(
            f"reserve = {show(reserve, 'byte')}: leaves nothing of {show(there, 'byte')}"
        )
    return there - reserve


def whole_devices(devices: object) -> int:
    """A number of devices whose divisors can be gone through."""
    n = whole("devices", devices)
    if n > MOST_DEVICES:
        raise InputError(f"devices = {n:,}: expected at most {MOST_DEVICES:,}, to try all layouts")
    return n


def bytes_at_risk(left: float, risk: float | None, program: str) -> float:
    """Of these, bytes whose chance of being too much is at most `risk`, if that is asked."""
    if risk is None:
        return left
    return min(left, most_needed(memory=left, risk=risk, program=program))


class _Found:
    """What a search keeps: the quickest, and the quickest of each value of each axis."""

    def __init__(self, most: int, variants: bool):
        self.rows, self.variants = most, variants
        self.most, self.tried, self.fitting = most + (0 if variants else KEPT), 0, 0
        self.best: list[_One] = []  # a heap, the slowest on top
        self.by_axes: list[dict[tuple[object, ...], _One]] = [{} for _ in TOGETHER]
        self.full = dict.fromkeys((*HELD, HOST), 0)

    def look(
        self, on: Machine, room: Room, left: float, way: Way, shards: list[Shard], offload: str
    ) -> None:
        """A family: memory first, and the time of those that fit."""
        away = OFFLOAD[offload]
        passing, standing = room.passing(way, away), room.of_family(way, shards, away)
        kept, logits, again = passing
        base = kept + logits + again
        held = [base + states + gathered for states, gathered in standing]
        self.tried += len(held)
        if min(held) > left:
            self._too_full(standing, passing)
            return
        fit = [i for i, needed in enumerate(held) if needed <= left]
        if len(fit) < len(held):
            self._too_full([standing[i] for i, n in enumerate(held) if n > left], passing)
        if offload != "none":
            fit = self._on_host(on, room, way, shards, away, fit)
        self.fitting += len(fit)
        times = times_of(on, way, shards, away)
        if fit:
            self._keep([(-times[i], -held[i], way, shards[i], offload) for i in fit])

    def _too_full(self, standing: list[Copies], passing: tuple[float, float, float]) -> None:
        """Counts what is the most of those that do not fit."""
        kept, logits, again = passing
        for states, gathered in standing:
            parts = (states, kept, logits, again + gathered)
            self.full[HELD[parts.index(max(parts))]] += 1

    def _on_host(
        self, on: Machine, room: Room, way: Way, shards: list[Shard], away: Away, fit: list[int]
    ) -> list[int]:
        """Those of which the host has room for what waits there."""
        most = on.host.memory * on.host.shares(way.world) if on.host else 0.0
        waits = room.family_on_host(way, shards, away)
        fits = [i for i in fit if waits[i] <= most]
        self.full[HOST] += len(fit) - len(fits)
        return fits

    def _keep(self, family: list[_One]) -> None:
        """The best of a family stand for it where only ZeRO's axes differ."""
        best, shards = self.best, self.by_axes[0]
        for one in family:
            if len(best) < self.most:
                heapq.heappush(best, one)
            elif one > best[0]:
                heapq.heapreplace(best, one)
            if one[3] not in shards or shards[one[3]] < one:
                shards[one[3]] = one
        first = max(family)
        for values_of, found in zip(_values, self.by_axes[1:], strict=True):
            values = values_of(first[2])
            if values not in found or found[values] < first:
                found[values] = first

    def by_axis(self) -> dict[str, dict[object, _One]]:
        """Axis, value: the best with it."""
        every: dict[str, dict[object, _One]] = {axis: {} for axis in AXES}
        for axes, found in zip(TOGETHER, self.by_axes, strict=True):
            for values, one in found.items():
                for axis, value in zip(axes, values, strict=True):
                    every[axis][value] = max(one, every[axis].get(value, one))
        return every

    def progress(self, share: float) -> Progress:
        best = -max(self.best)[0] if self.best else 0.0
        return Progress(share, self.tried, self.fitting, best)

    def ranking(self, on: Machine, left: float, program: str, complete: bool) -> Ranking:
        @cache
        def choice(one: _One) -> Choice:
            way, offload = sharded(one[2], one[3]), one[4]
            reason = "" if best is None or one == best else _reason(on, best, one)
            return choice_of(on, layout_of(way), -one[1], left, program, reason, offload)

        ordered = sorted(self.best, reverse=True)
        best = ordered[0] if ordered else None
        shown = ordered if self.variants else _mixes(ordered)
        choices = [choice(one) for one in shown[: self.rows]]
        best_with = {
            axis: {value: choice(one) for value, one in found.items()}
            for axis, found in self.by_axis().items()
        }
        between = interval(on, choices[0].layout, offload=choices[0].offload) if choices else None
        full = {name: n for name, n in self.full.items() if n}
        return Ranking(choices, self.tried, self.fitting, between, best_with, full, complete)


def layout_of(way: Way) -> Layout:
    return Layout(**way._asdict())


def choice_of(
    on: Machine,
    layout: Layout,
    held: float,
    left: float,
    program: str,
    reason: str = "",
    offload: str = "none",
) -> Choice:
    risk = out_of_memory(needed=held, memory=left, program=program)
    seconds = sum(seconds_of(on, layout, OFFLOAD[offload]))
    return Choice(layout, seconds, held, reason, offload, risk)


def _reason(on: Machine, best: _One, other: _One) -> str:
    """What the other layout loses, largest first, as long as that explains it."""
    mine, others = (
        seconds_of(on, sharded(one[2], one[3]), OFFLOAD[one[4]]) for one in (best, other)
    )
    more = {n: b - a for n, a, b in zip(NAMES, mine, others, strict=True)}
    slower, total = sum(others) - sum(mine), sum(mine)
    if slower <= 1e-9 * total:
        return "as quick"
    causes, so_far = [], 0.0
    for name, seconds in sorted(more.items(), key=lambda one: -one[1])[:3]:
        if seconds > 0 and so_far < 0.9 * slower:
            so_far += seconds
            causes.append(f"{name} +{show(seconds, 'second', digits=3)}")
    return f"{slower / total:.1%} slower: {', '.join(causes)}"
