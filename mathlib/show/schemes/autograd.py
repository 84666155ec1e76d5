"""Schemes of the autograd chapter: values forward, gradients backward, what both cost, and in which
order gradients come, in PyTorch's own graphs too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from mathlib.compute.autodiff import Value, shape
from mathlib.show import drawing, says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.shapes import NEUTRAL
from mathlib.show.kit.sheet import place
from mathlib.show.roles import ROLES
from mathlib.show.says import plain
from mathlib.show.tables import Shown

FLOW = (
    "Values go up the thin arrows; gradients come back down the coloured ones, and where two "
    "meet they are added."
)
ARRIVAL = "What was made last is visited first, and a leaf as soon as its last share has come."
LIVES = (
    "The events of a step from left to right, at equal distances: an order and no clock. Forward "
    "goes up and backward comes down: what is saved last dies first, and a gradient arrives when "
    "backward has passed every use of its parameter. All heights have one scale."
)
WORK = (
    "Multiplications: in a box those that made the value, at an arrow those of the VJP. A matmul "
    "is paid for once on the way up, and once for each of its two factors on the way down."
)
TURNS = "The number in a box is the place at which its node ran; parameters are coloured."
LANE, TICK = 34.0, 9.0  # heights of a part's bytes, and of a gradient's mark under them
Made = Mapping[str, Value]  # every value by its name; the last one is the loss


def values_and_gradients(made: Made, *, caption: str = FLOW, name: str = "") -> Shown:
    """A graph of numbers: what each value is, and the gradient that comes back to it."""
    *_, loss = made.values()
    gradients = {value: rows[0][0] for value, rows in loss.backward().items()}
    draw = partial(_values_and_gradients, made=made, gradients=gradients)
    return figure(draw, caption=caption, name=name)


def _values_and_gradients(width: float, made: Made, gradients: Mapping[Value, float]) -> str:
    page = Canvas(width, "Values forward, gradients backward")
    names = {value: name for name, value in made.items()}
    number = {value: i for i, value in enumerate(made.values())}
    edges = [(number[p], number[v]) for v in made.values() for p in dict(v.vjps)]
    values = list(made.values())
    boxes = {i: _box(page, names[v], v, gradients.get(v)) for i, v in enumerate(values)}
    turned = [(b, a) for a, b in edges]  # from the loss down: a leaf stands where it is used
    above = 10
    for level in drawing.layers(list(boxes), turned):
        page.row(*(boxes[i] for i in level), gap=22 if page.narrow else 60, above=above)
        above = 42
    for a, b in edges:
        both = values[a] in gradients and values[b] in gradients
        page.arrow(boxes[a], boxes[b], bend=-0.1 if both else 0)
        if both:
            page.arrow(boxes[b], boxes[a], bend=-0.1, role="gradients")
    return page.done(
        "; ".join(
            f"{name} = {plain(value.rows[0][0])}"
            + (f", gradient {plain(gradients[value])}" if value in gradients else "")
            for name, value in made.items()
        )
    )


def _box(page: Canvas, name: str, value: Value, gradient: float | None) -> Shape:
    note = f"= {plain(value.rows[0][0])}"
    if gradient is None:
        return page.box(name, note=note)
    return page.box(name, note=f"{note}\ngradient {plain(gradient)}", role="gradients")


def work(made: Made, *, caption: str = WORK, name: str = "") -> Shown:
    """A graph of costs: the multiplications that made each value, and those of each VJP."""
    *_, loss = made.values()
    arrived = loss.backward()
    vjps: Counter[tuple[Value, Value]] = Counter()
    for value in made.values():
        for parent, vjp in value.vjps:
            if value in arrived and parent in arrived:
                vjps[value, parent] += vjp(arrived[value])[1]
    return figure(partial(_work, made=made, vjps=vjps), caption=caption, name=name)


def _work(width: float, made: Made, vjps: Mapping[tuple[Value, Value], int]) -> str:
    page = Canvas(width, "What a step multiplies, forward and backward")
    values = list(made.values())
    number = {value: i for i, value in enumerate(values)}
    boxes = {i: _cost(page, name, made[name]) for i, name in enumerate(made)}
    turned = [(number[v], number[p]) for v in values for p in dict(v.vjps)]
    for level in drawing.layers(list(boxes), turned):
        page.row(*(boxes[i] for i in level), gap=34 if page.narrow else 90, above=34)
    for (value, parent), count in vjps.items():
        down, there = boxes[number[value]], boxes[number[parent]]
        left = page.places[there].centre[0] < page.places[down].centre[0] - 1
        page.arrow(down, there, f"{count}", role="gradients", side=-1 if left else 1)
    forward, backward = sum(v.made for v in values), sum(vjps.values())
    page.note(f"forward {forward}, backward {backward}", above=16)
    names = {value: name for name, value in made.items()}
    told = (f"{names[v]} to {names[p]} {count}" for (v, p), count in vjps.items())
    return page.done(f"Forward {forward}, backward {backward}: " + ", ".join(told))


def _cost(page: Canvas, name: str, value: Value) -> Shape:
    """A value, its shape, and what it took to make it; a leaf that is learned has its colour."""
    rows, columns = shape(value.rows)
    if value.by:
        return page.box(name, note=f"{rows} by {columns}\nmade by {value.made}")
    return page.box(name, note=f"{rows} by {columns}", role="weights" if name[0] == "W" else "")


def order_of_arrival(values: Made, *, caption: str = ARRIVAL, name: str = "") -> Shown:
    """The values in the order in which their gradients are complete."""
    *_, loss = values.values()
    arrived = loss.backward()
    names = {value: name for name, value in values.items()}
    order = [value for value in reversed(loss.graph()) if value in arrived]
    made = sorted(value.number for value in order)
    rows = [
        (names[value], arrived[value][0][0], made.index(value.number) + 1 if value.vjps else 0)
        for value in order
    ]
    return figure(partial(_order, rows=rows), caption=caption, name=name)


def _order(width: float, rows: list[tuple[str, float, int]]) -> str:
    page = Canvas(width, "The order in which gradients arrive")
    kinds = [("a leaf keeps it", ROLES["gradients"]), ("it is passed on", NEUTRAL)]
    page.bottom = page.legend(kinds, page.bottom) - 24
    cards = []
    for turn, (name, gradient, number) in enumerate(rows, 1):
        note = f"made as number {number}" if number else "a leaf"
        role = "" if number else "gradients"
        card = page.box(name, note=f"{note}\ngradient {plain(gradient)}", role=role)
        cards.append(page.stacked(page.words(f"{turn}.", quiet=True, small=True), card, gap=3))
    page.flow(*cards, gap=26, above=20)
    for one, other in zip(cards, cards[1:], strict=False):
        if page.places[one].y == page.places[other].y:
            page.arrow(one.inner[1][0], other.inner[1][0])
    told = (f"{name} with {plain(g)}" + (f", made as number {n}" * bool(n)) for name, g, n in rows)
    return page.done("; then ".join(told))


Graph = tuple[Sequence[tuple[int, str]], Sequence[tuple[int, int]], Sequence[int]]


def turns(runs: Mapping[str, Graph], *, caption: str = TURNS, name: str = "") -> Shown:
    """Graphs beside each other: nodes (number, name), edges, and the numbers in the order in which
    the nodes ran. What hands nothing on is a parameter.
    """
    return figure(partial(_turns, runs=runs), caption=caption, name=name)


def _turns(width: float, runs: Mapping[str, Graph]) -> str:
    page = Canvas(width, "The nodes of a backward pass, and when each ran")
    panels, ways, told = [], [], []
    for how, (nodes, edges, ran) in runs.items():
        passing, boxes = {a for a, _ in edges}, {}
        for i, label in nodes:
            role = "" if i in passing else "gradients"
            boxes[i] = page.box(label, note=f"{ran.index(i) + 1}.", role=role, tight=True)
        levels = drawing.layers(list(boxes), edges)
        rows = [page.beside(*(boxes[i] for i in level), gap=8) for level in levels]
        panels.append(page.panel(how, page.stacked(*rows, gap=24)))
        ways += [(boxes[a], boxes[b]) for a, b in edges]
        names = dict(nodes)
        told.append(f"{how}: " + ", ".join(names[i] for i in ran))
    page.flow(*panels, gap=24)
    for a, b in ways:
        page.arrow(a, b)
    return page.done("; ".join(told))


class Event(Protocol):
    """What the picture reads of an event: mathlib.meters.arrivals records them."""

    @property
    def what(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...


def lives(
    events: Sequence[Event], parts: Sequence[str], *, caption: str = LIVES, name: str = ""
) -> Shown:
    """A line for each part of a network, the first one lowest: the bytes that it keeps for
    backward, and a mark for each of its gradients, as they came; a hollow one for a first share.
    """
    return figure(partial(_lives, events=events, parts=parts), caption=caption, name=name)


def _lives(width: float, events: Sequence[Event], parts: Sequence[str]) -> str:
    page = Canvas(width, "A step in order: what is kept, and when gradients arrive")
    kinds = [("bytes kept for backward", "activations"), ("a gradient arrives", "gradients")]
    top = page.legend([(words, ROLES[role]) for words, role in kinds], page.bottom) + 6
    alive = {part: _alive(events, part) for part in parts}
    most = max(max(line) for line in alive.values())
    sizes = {part: says.size(max(line)) for part, line in alive.items()}
    left = max(page.wide(words, page.small) for words in [*parts, *sizes.values()]) + 12
    step = (width - left - 14) / len(events)
    foot = top
    for part in reversed(parts):
        foot += LANE + TICK + 8
        page.text(0, foot - 17, part, size=page.small)
        page.text(0, foot - 2, sizes[part], size=page.small, quiet=True)
        page.line(f"M{place(left, foot)}H{width - 4:.1f}", opacity=0.3)
        ways = _stairs(alive[part], left, foot, step, LANE / most)
        hint = f"{part}: at most {sizes[part]}"
        page.area("M" + "L".join(ways) + "Z", ROLES["activations"], hint=hint)
        _marks(page, [(i, e) for i, e in enumerate(events) if e.part == part], left, foot, step)
    turn = next(i for i, event in enumerate(events) if event.what == "turn")
    _passes(page, left, left + turn * step, top, foot + TICK + 4)
    return page.done(_told(events, parts))


def _marks(
    page: Canvas, events: Sequence[tuple[int, Event]], left: float, foot: float, step: float
) -> None:
    """A full mark for a gradient, a hollow one for a share, and a line from its first share."""
    colour, wide = ROLES["gradients"][0], min(2.4, 0.6 * step)
    first: dict[str, float] = {}
    for i, event in events:
        x = left + i * step
        if event.what == "share" and event.name not in first:
            first[event.name] = x
            page.frame(x - 3, foot + 1, 6, TICK - 2, heavy=True, colour=colour, hint=event.name)
        if event.what == "gradient":
            page.rect(x - wide / 2, foot, wide, TICK, ROLES["gradients"], event.name)
            if event.name in first:
                way = f"M{place(first[event.name] + 4, foot + TICK / 2)}H{place(x, 0).split()[0]}"
                page.line(way, colour=colour, width=1.3, dash="3 3")


def _alive(events: Sequence[Event], part: str) -> list[int]:
    """Bytes that a part keeps after each event."""
    sizes, now = [], 0
    for event in events:
        sign = {"saved": 1, "released": -1}.get(event.what, 0)
        now += sign * event.size * (event.part == part)
        sizes.append(now)
    return sizes


def _stairs(sizes: list[int], left: float, foot: float, step: float, scale: float) -> list[str]:
    """The corners of what is kept, from its first byte to its last."""
    ways, before = [place(left, foot)], 0
    for i, size in enumerate([*sizes, 0]):
        if size != before:
            x = left + i * step
            ways += [place(x, foot - before * scale), place(x, foot - size * scale)]
            before = size
    return ways


def _passes(page: Canvas, left: float, turn: float, top: float, foot: float) -> None:
    """Where forward ends, and both names under the lines."""
    page.line(f"M{place(turn, top)}V{foot:.1f}", opacity=0.5, dash="3 3")
    for words, middle in (
        ("forward", (left + turn) / 2),
        ("backward", (turn + page.width - 4) / 2),
    ):
        page.text(middle, foot + 13, words, anchor="middle", size=page.small, quiet=True)


def _told(events: Sequence[Event], parts: Sequence[str]) -> str:
    """Which part's last gradient arrived when."""
    order = [event.part for event in events if event.what == "gradient"]
    last = {part: len(order) - order[::-1].index(part) for part in parts if part in order}
    most = {part: says.size(max(_alive(events, part))) for part in parts}
    ends = {part: f", last gradient is number {n}" for part, n in last.items()}
    return "; ".join(f"{part}: at most {most[part]}{ends.get(part, '')}" for part in parts)
