"""Schemes of the schedules chapter: whose weights a batch meets, and what every stage holds."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from mathlib.checks import InputError, below, divides, listed, whole
from mathlib.schedule import orders, weights
from mathlib.schedule.actions import looped, v_shaped
from mathlib.schedule.simulate import Timeline, simulate
from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, letters
from mathlib.show.kit.sheet import WARNING, Sheet, ink, number, place
from mathlib.show.roles import RANKS, ROLES, rank_look
from mathlib.show.tables import Shown

LANE, GAP = 22, 7  # heights: of boxes, between workers
HEADINGS = {"pipedream": "PipeDream", "2bw": "2BW"}
MET = "Narrow boxes are forwards, wide ones backwards; the colour is the version of the weights."
DEALT = (
    "A layer's number is its place in the model, its colour and the number inside say which stage "
    "holds it: neighbours, rounds, or there and back."
)
TWO_HALVES = (
    "The stage before waits for the gradient of the input. Nobody waits for the gradient of the "
    "weights, so its matmul can come later, if x and dy are kept."
)
MATMULS = {  # title: (factors and result with their roles, who waits for it)
    "Forward": ((("x", "activations"), ("wᵀ", "weights"), ("y", "activations")), "kept: x"),
    "Backward, I": (
        (("dy", "gradients"), ("w", "weights"), ("dx", "gradients")),
        "dx goes to the stage before; x and dy are kept",
    ),
    "Backward, W": (
        (("dyᵀ", "gradients"), ("x", "activations"), ("dw", "gradients")),
        "any time before the update",
    ),
}
Box = tuple[int, float, float, int]  # micro-batch, begin, end, version


def versions_met(
    stages: int = 4, batch: int = 5, until: float = 27, *, caption: str = MET, name: str = ""
) -> Shown:
    """PipeDream and 2BW by the clock: each box in the colour of the weights that it uses, and one
    batch, counted from 1, framed.
    """
    p = whole("stages", stages, least=2)
    below("batch", whole("batch", batch), 2 * p + 1)
    lines = {
        heading: simulate(orders.make(order, stages=p, micro_batches=3 * p))
        for order, heading in HEADINGS.items()
    }
    met = {
        h: [weights.versions(one.schedule, stage=s) for s in range(p)] for h, one in lines.items()
    }
    told = "; ".join(
        f"{h}: batch {batch} meets version {', '.join(str(row[batch - 1]) for row in met[h])}"
        for h in lines
    )
    draw = partial(_versions, lines=lines, met=met, batch=batch, until=until, told=told)
    return figure(draw, caption=caption, name=name, words=told)


def _versions(
    width: float,
    lines: Mapping[str, Timeline],
    met: Mapping[str, list[list[int]]],
    batch: int,
    until: float,
    told: str,
) -> str:
    page = Sheet(width)
    y = page.title("Which weights a batch meets")
    seen = {v for h in lines for row in _boxes(lines[h], met[h], until) for *_, v in row}
    if max(seen) >= len(RANKS):
        raise InputError(f"until = {until}: expected few enough batches for {len(RANKS)} versions")
    swatches = [(f"version {v}" if not v else str(v), _look(v)) for v in sorted(seen)]
    y = page.legend([*swatches, ("update", ROLES["weights"])], y)
    left = page.wide("4" if page.narrow else "worker 4") + 8
    unit = (page.width - left - 2) / until
    for heading, one in lines.items():
        page.text(0, y + page.size + 2, heading, bold=True)
        y += page.size + 10
        for s, row in enumerate(_boxes(one, met[heading], until)):
            page.text(0, y + LANE / 2 + 5, f"{s + 1}" if page.narrow else f"worker {s + 1}")
            _lane(page, row, y, left, unit, batch)
            for time in _updates(one, s, until):
                page.rect(left + time * unit - 1, y - 3, 2, LANE + 6, ROLES["weights"])
            y += LANE + GAP
    return page.svg("Which weights a batch meets", told, y + 2)


def _lane(page: Sheet, row: Sequence[Box], y: float, left: float, unit: float, batch: int) -> None:
    """A worker's boxes, each with its batch counted from 1."""
    for i, begin, end, version in row:
        x, wide, word = left + begin * unit, (end - begin) * unit, str(i + 1)
        page.cell(x, y, wide, LANE, _look(version)[0])
        if i + 1 == batch:
            page.frame(x + 1, y + 1, wide - 2, LANE - 2, heavy=True, colour=WARNING)
        if page.wide(word, page.small) <= wide - 1:
            page.scattered(y + LANE / 2 + 4.5, [(x + wide / 2, word)], ink(_look(version)[0]))


def _look(version: int) -> tuple[str, str]:
    return rank_look(version, len(RANKS))


def _boxes(one: Timeline, met: list[list[int]], until: float) -> Iterator[list[Box]]:
    """Each worker's boxes, as far as the picture goes."""
    rows = zip(one.schedule.actions, one.begins, one.ends, met, strict=True)
    for actions, begins, ends, found in rows:
        timed = zip(actions, begins, ends, strict=True)
        yield [
            (a.micro_batch, b, min(e, until), found[a.micro_batch])
            for a, b, e in timed
            if b < until
        ]


def _updates(one: Timeline, s: int, until: float) -> Iterator[float]:
    """When a worker's weights change."""
    backs = [
        end
        for action, end in zip(one.schedule.actions[s], one.ends[s], strict=True)
        if action.kind == "B"
    ]
    for end in backs[one.schedule.accumulate - 1 :: one.schedule.accumulate]:
        if end < until:
            yield end


def dealt(layers: int = 8, stages: int = 4, *, caption: str = DEALT, name: str = "") -> Shown:
    """Which stage holds which layer: in one chunk, in two that come in rounds, there and back."""
    p, L = whole("stages", stages, least=2), whole("layers", layers)
    divides("twice the stages", 2 * p, "layers", L)
    return figure(partial(_dealt, L=L, p=p), caption=caption, name=name)


def _dealt(width: float, L: int, p: int) -> str:
    page = Canvas(width, f"{L} layers split over {p} stages")
    places = {
        "One chunk a stage": looped(stages=p),
        "Two, in rounds": looped(stages=p, chunks=2),
        "Two, there and back": v_shaped(stages=p),
    }
    of_layer = {way: [put[i * len(put) // L] for i in range(L)] for way, put in places.items()}
    page.bottom = page.legend([(f"stage {s}", rank_look(s, p)) for s in range(p)], page.bottom)
    panels = []
    for way, row in of_layer.items():
        texts = [[f"{i + 1}" for i in range(L)], [f"{s}" for s in row]]
        cells = page.grid([[None] * L, [rank_look(s, p) for s in row]], cell=26, texts=texts)
        panels.append(page.panel(way, cells))
    page.flow(*panels, gap=18, above=10)
    told = (f"{way}: {', '.join(map(str, row))}" for way, row in of_layer.items())
    return page.done(f"The stage of layers 1 to {L}. {'; '.join(told)}")


def two_halves(*, caption: str = TWO_HALVES, name: str = "") -> Shown:
    """A matmul's forward, and the two matmuls of its backward."""
    return figure(_two_halves, caption=caption, name=name)


def _two_halves(width: float) -> str:
    page = Canvas(width, "A matmul, forward and back")
    kinds = ("weights", "activations", "gradients")
    page.bottom = page.legend([(kind, ROLES[kind]) for kind in kinds], page.bottom)
    panels = []
    for title, (three, note) in MATMULS.items():
        one, other, result = (page.box(text, role=role, wide=44) for text, role in three)
        matmul = page.beside(one, page.words("·"), other, page.words("="), result, gap=7)
        panels.append(page.panel(title, matmul, note=note))
    page.flow(*panels, gap=12, above=10)
    told = "Forward x times w gives y; I is dy times w, the gradient of x; W is dy times x, of w"
    return page.done(told)


def stages_hold(
    held: Mapping[str, Sequence[float]],
    notes: Mapping[str, str],
    *,
    title: str,
    caption: str = "",
    name: str = "",
) -> Shown:
    """A small picture for each way: a bar for each stage's bytes, all on one scale, and a dashed
    line at the fullest stage of the first way.
    """
    if not held or held.keys() != notes.keys():
        raise InputError(f"notes = {notes!r}: expected one for each of {list(held)}")
    for way, row in held.items():
        listed(f"held[{way!r}]", row)
    told = "; ".join(
        f"{way}, {notes[way]}: {', '.join(says.size(x) for x in row)}" for way, row in held.items()
    )
    draw = partial(_hold, held=held, notes=notes, title=title, told=told)
    return figure(draw, caption=caption, name=name, words=f"{title}. {told}")


def _hold(
    width: float,
    held: Mapping[str, Sequence[float]],
    notes: Mapping[str, str],
    title: str,
    told: str,
) -> str:
    page = Sheet(width)
    top = page.legend([("activations", ROLES["activations"])], page.title(title))
    columns = 2 if page.narrow else 3
    wide, high = width / columns, 92.0
    limit = max(next(iter(held.values())))
    scale = high / max(max(row) for row in held.values())
    for turn, (way, row) in enumerate(held.items()):
        x, y = turn % columns * wide, top + turn // columns * (high + 3 * page.small + 34)
        heads = letters.lines(way, wide - 10, page.small, bold=True)
        page.text(x, y + page.small, heads[0], size=page.small, bold=True)
        page.text(x, y + 2 * page.small + 4, notes[way], size=page.small, quiet=True)
        base, each = y + 2 * page.small + 24 + high, (wide - 14) / len(row)
        for s, value in enumerate(row):
            at, tall = x + s * each, value * scale
            page.rect(at + 2, base - tall, each - 4, tall, ROLES["activations"])
            word = says.size(value).split()[0]
            page.scattered(base - 5, [(at + each / 2, word)], ink(ROLES["activations"][0]))
            page.text(
                at + each / 2, base + page.small + 3, str(s), anchor="middle", size=page.small
            )
        page.limit(f"M{place(x, base - limit * scale)}h{number(wide - 14)}")
    return page.svg(title, told)
