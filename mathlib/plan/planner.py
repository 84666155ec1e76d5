"""Questions to a planner: what to run, what fits, what is the least or the most, and why.

p stages · t tensor · n devices · B sequences · b micro_batch · s tokens · T seconds of a step
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mathlib.checks import InputError, divisors, instance, one_of, positive, whole
from mathlib.layout import RECOMPUTE, spreads, tensor_degree
from mathlib.memory.fit import Verdict, fits
from mathlib.parts import Parts
from mathlib.plan.adapted import NEEDS, refuse_split
from mathlib.plan.room import HELD, Room
from mathlib.plan.search import (
    AXES,
    HOST,
    Choice,
    Progress,
    Ranking,
    axis_values,
    bytes_at_risk,
    bytes_left,
    choice_of,
    layout_of,
    memory_of,
    search,
    ways_within,
    whole_devices,
)
from mathlib.plan.step import NAMES, Machine, seconds_of
from mathlib.plan.ways import Shard, meshes_of, of_mesh, sharded, ways
from mathlib.plan.work import HERE, OFFLOAD, Away, Way
from mathlib.records import dataclass, replace
from mathlib.specs import Layout, Model
from mathlib.units import show

__all__ = [
    "AXES",
    "HELD",
    "Answer",
    "Choice",
    "Progress",
    "Ranking",
    "fewest",
    "fitting",
    "largest",
    "longest",
    "search",
    "verdict",
    "ways",
    "why",
]


MANY = 2**62  # sequences that nothing limits


@dataclass(frozen=True)
class Answer:
    """The least or the most that was asked for; true where there is one."""

    what: str  # devices, tokens, sequences, micro_batch
    value: int  # 0: none
    choice: Choice | None  # the layout that does it
    beyond: str  # why not one step further
    complete: bool = True  # False: it was stopped

    def __bool__(self) -> bool:
        return self.value > 0

    def __str__(self) -> str:
        one = self.what.removesuffix("s") if self.value == 1 else self.what
        head = f"{self.value:,} {one}" if self else f"no number of {self.what} does it"
        told = [head, str(self.choice) if self.choice else "", self.beyond]
        return "\n".join([one for one in told if one])


def fewest(
    on: Machine,
    *,
    sequences: int,
    within: float | None = None,
    least_devices: int = 1,
    most_devices: int = 2**14,
    **options: Any,
) -> Answer:
    """The fewest devices on which a layout fits, and takes at most `within` seconds for a step of B
    sequences; with the quickest layout on them.

    Tried are the divisors of a node, then whole nodes, each number at most an eighth more than the
    one before from eight nodes on; from `least_devices` on. With adapters no more than B, as each
    device needs a sequence. All else goes to `search`.

    Chapter: planning
    """
    T = None if within is None else positive("within", within)
    most, beyond = whole("most_devices", most_devices), ""
    least, near = whole("least_devices", least_devices), instance("on", on, Machine).cluster
    most = min(most, whole("sequences", sequences)) if on.adapters else most
    for n in (n for n in _sizes(near.devices_per_node, most) if n >= least):
        found = search(on, devices=n, sequences=sequences, **options)
        best = found.choices[0] if found else None
        if not found.complete:
            return Answer("devices", 0, None, f"stopped at {n:,} devices", complete=False)
        if best and (T is None or best.seconds <= T):
            return Answer("devices", n, best, beyond)
        beyond = f"{n:,} devices: {_too_slow(best) if best else found}"
    return Answer("devices", 0, None, beyond)


def _too_slow(best: Choice) -> str:
    return f"a step takes at least {show(best.seconds, 'second')}"


def _sizes(node: int, most: int) -> Iterator[int]:
    """Numbers of devices that people rent."""
    yield from (n for n in divisors(node) if n <= most)
    nodes = 2
    while nodes * node <= most:
        yield nodes * node
        nodes += max(1, nodes // 8)


def longest(
    on: Machine,
    *,
    devices: int,
    sequences: int = 1,
    multiple: int = 1024,
    most_tokens: int = 2**24,
    **options: Any,
) -> Answer:
    """The longest sequence with which a layout fits n devices, B of them a step; a multiple of
    `multiple`; with the quickest layout for it. The tokens of `on` do not count.

    All else goes to `search`. Whether a model trained on short sequences understands long ones is
    another question.

    Chapter: planning
    """
    on, each = instance("on", on, Machine), whole("multiple", multiple)
    rows = on.model.position_rows if on.model.positions == "learned" else most_tokens
    asked = {"devices": devices, "sequences": sequences} | options

    def refused(k: int) -> str:
        found = search(replace(on, tokens=k * each), first=True, **asked)
        if not found and not found.complete:
            raise _Stopped
        return "" if found else f"{k * each:,} tokens: {found}"

    try:
        k, beyond = _last(refused, min(whole("most_tokens", most_tokens), rows) // each)
    except _Stopped:
        return Answer("tokens", 0, None, "stopped", complete=False)
    if not k:
        return Answer("tokens", 0, None, beyond)
    found = search(replace(on, tokens=k * each), **asked)
    return Answer("tokens", k * each, found.choices[0], beyond, found.complete)


class _Stopped(Exception):
    """Somebody had enough."""


def _last(refused: Callable[[int], str], most: int) -> tuple[int, str]:
    """The greatest number up to `most` that is not refused, by doubling, then by halving; and what
    is said of the next.
    """
    low, high, why = 0, 1, ""
    while high <= most and not (why := refused(high)):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if told := refused(middle):
            high, why = middle, told
        else:
            low = middle
    return low, why


def largest(
    on: Machine,
    *,
    devices: int,
    what: str = "sequences",
    memory: float | None = None,
    reserve: float = 4e9,
    recipe: str | None = None,
    program: str = "megatron-core",
    risk: float | None = None,
    only: Mapping[str, object] | None = None,
    at_most: Mapping[str, object] | None = None,
) -> Answer:
    """The largest batch that n devices hold without accumulation, p micro-batches in p stages; or
    the largest `micro_batch` of any layout. Of layouts that hold as many, the quickest.

    `only` and `at_most` restrict the layouts as in `search`.
    With `risk` none counts whose chance of running out of memory is above that. Where `on` has a
    host, states and activations may wait in its memory.
    A batch of micro-batches one after the other is as large as one likes. For one layout it is
    `memory.fit.largest_micro_batch`.

    Chapter: planning
    """
    on, n = instance("on", on, Machine), whole_devices(devices)
    one_of("what", what, ("sequences", "micro_batch"))
    left, room = bytes_left(on, memory, reserve), memory_of(on, recipe, program)
    program = NEEDS if on.adapters else program
    limit = bytes_at_risk(left, risk, program)
    best: tuple[int, float, Way, str] | None = None
    exact, highest = axis_values("only", only), axis_values("at_most", at_most)
    if on.adapters:
        refuse_split(exact)
    for way, offload in _at_once(on, room, limit, n):
        if not any(ways_within((way, [(way.zero, way.shard)]), exact, highest)):
            continue
        count = way.micro_batch * (way.data * way.pipeline if what == "sequences" else 1)
        if best is None or count >= best[0]:
            one = (count, -sum(seconds_of(on, way, OFFLOAD[offload])), way, offload)
            best = one if best is None else max(best, one)
    if best is None:
        return Answer(what, 0, None, "one sequence on each is too much for every layout")
    count, _, way, offload = best
    held, one_more = (
        sum(room.parts(way._replace(micro_batch=way.micro_batch + more), OFFLOAD[offload]))
        for more in (0, 1)
    )
    too_much = f"{show(one_more - limit, 'byte')} too much" if one_more > limit else HOST
    beyond = f"micro_batch {way.micro_batch + 1}: {too_much}"
    choice = choice_of(on, layout_of(way), held, left, program, "", offload)
    return Answer(what, count, choice, beyond)


def _at_once(on: Machine, room: Room, left: float, n: int) -> Iterator[tuple[Way, str]]:
    """Every way without accumulation, with the largest micro-batch that fits."""
    near = on.cluster.devices_per_node
    for mesh in meshes_of(on.model, on.tokens, n, near):
        every = of_mesh(on.model, mesh, near, 1, mesh.pipeline)
        for way, shards in (one for one in every if on.takes(one[0])):
            for offload in OFFLOAD if on.host else ("none",):
                away = OFFLOAD[offload]
                each = sum(room.passing(way, away))  # bytes of a sequence: all are linear in b
                standing = room.of_family(way, shards, away)
                for (states, gathered), shard in zip(standing, shards, strict=True):
                    b = int((left - states - gathered) // each)
                    b = min(b, _on_host(on, room, way, shard, away))
                    if b > 0:
                        yield sharded(way, shard)._replace(micro_batch=b), offload


def _on_host(on: Machine, room: Room, way: Way, shard: Shard, away: Away) -> int:
    """The largest micro-batch for which the host has room, of a way with one sequence."""
    if on.host is None or away == HERE:
        return MANY
    standing = room.on_host(way, shard, Away(states=away.states))
    each = room.on_host(way, shard, away) - standing
    left = on.host.memory * on.host.shares(way.world) - standing
    return int(left // each) if each else MANY if left >= 0 else 0


def why(on: Machine, layout: Layout, other: Layout) -> Parts:
    """Where the time goes that a layout takes more than another one, by part; less is negative.

    Chapter: planning
    """
    one = seconds_of(instance("on", on, Machine), instance("layout", layout, Layout))
    two = seconds_of(on, instance("other", other, Layout))
    parts = {name: a - b for name, a, b in zip(NAMES, one, two, strict=True)}
    title = "Seconds of a step more than the other layout takes"
    return Parts(title, "second", {name: more for name, more in parts.items() if more})


def fitting(
    on: Machine,
    layout: Layout,
    *,
    memory: float | None = None,
    reserve: float = 4e9,
    recipe: str | None = None,
    program: str = "megatron-core",
) -> list[tuple[str, Choice]]:
    """What would have to change to make a layout fit, the quickest change first: one thing, of its
    devices and its batch as they are. Empty where nothing does alone; itself where it fits.

    Chapter: planning
    """
    lay = instance("layout", layout, Layout)
    room = memory_of(instance("on", on, Machine), recipe, program)
    left = bytes_left(on, memory, reserve)
    program = NEEDS if on.adapters else program
    found = []
    tries = [("as it is", lay, "none"), *((w, one, "none") for w, one in _changes(on.model, lay))]
    tries += [(f"{o} on the host", lay, o) for o in OFFLOAD if on.host and o != "none"]
    for words, other, offload in tries:
        if not on.takes(other):
            continue
        away = OFFLOAD[offload]
        held = sum(room.parts(other, away))
        waits = room.on_host(other, (other.zero, other.shard), away)
        if held <= left and (
            on.host is None or waits <= on.host.memory * on.host.shares(other.world)
        ):
            found.append((words, choice_of(on, other, held, left, program, "", offload)))
            if words == "as it is":
                break
    return sorted(found, key=lambda one: one[1].seconds)


def _changes(model: Model, lay: Layout) -> Iterator[tuple[str, Layout]]:
    """Layouts that differ in one thing, on as many devices with as many sequences."""
    tries: list[tuple[str, dict[str, Any]]] = [
        *((f"recompute {again}", {"recompute": again}) for again in RECOMPUTE),
        *((f"ZeRO stage {zero}", {"zero": zero, "shard": 0}) for zero in (1, 2, 3)),
    ]
    if not lay.micro_batch % 2:
        halves = {"micro_batch": lay.micro_batch // 2, "micro_batches": 2 * lay.micro_batches}
        tries.append((f"micro_batch {lay.micro_batch // 2}", halves))
    for axis in ("tensor", "pipeline", "context"):
        for times in (2, 4, 8):
            size = getattr(lay, axis) * times
            p = size if axis == "pipeline" else lay.pipeline
            if lay.data % times == 0 and spreads(model.layers, p, lay.chunks):
                changed = {axis: size, "data": lay.data // times, "shard": 0}
                changed |= {"micro_batches": lay.micro_batches * times}
                tries.append((f"{axis} {size}", changed))
    for words, changed in tries:
        if any(getattr(lay, n) != value for n, value in changed.items() if n != "shard"):
            try:
                other = replace(lay, **{"expert_tensor": 0} | changed)
                tensor_degree(model, other.tensor)
            except InputError:
                continue
            yield words, other


def verdict(
    on: Machine,
    layout: Layout,
    *,
    reserve: float = 4e9,
    recipe: str | None = None,
    program: str = "megatron-core",
) -> Verdict:
    """Whether a layout fits the device, by what fills it, in words.

    Chapter: planning
    """
    room = memory_of(instance("on", on, Machine), recipe, program)
    parts = room.parts(instance("layout", layout, Layout))
    needed = Parts("bytes", "byte", dict(zip(HELD, parts, strict=True)))
    return fits(needed, on.device, reserve=reserve)
