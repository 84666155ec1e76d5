"""A poster of the book: what each axis of parallelism cuts, what it sends, and when it pays."""

from collections.abc import Sequence

from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import Sheet, number, outline
from mathlib.show.roles import Look, look, rank_look
from mathlib.show.schemes import five_axes
from mathlib.show.schemes.five_axes import DRAWN, Axis, Cell
from mathlib.show.tables import Shown

TITLE = "Five ways to spread a transformer"
CAPTION = (
    "The five axes of parallelism: what each cuts, what it sends, and when it pays. The book’s "
    "library computes every number."
)
FOOT = (
    "N ranks of the axis, D tokens of the step, e bytes of a number, P parameters, h width, "
    "L layers, k key-value heads of d numbers, E* experts that a token visits.",
    "Transformer Math, Measured: every formula is derived, run and counted.",
)
SHARED: Look = ("#8a8f98", "")  # what every rank has


def poster(*, caption: str = CAPTION, name: str = "") -> Shown:
    """The whole book in one picture."""
    return figure(drawn, caption=caption, name=name)


def drawn(width: float) -> str:
    """A row for each axis; on a phone its parts stand under each other."""
    page = Canvas(width)
    page.name, every = TITLE, five_axes.axes()
    page.at(_large(page, TITLE, 21 if page.narrow else 30), 0, 0)
    _keys(page)
    slowest = max(one.sent / five_axes.links()["network"] for one in every)
    for one in every:
        _rule(page)
        _heading(page, one)
        (_phone_row if page.narrow else _row)(page, one, slowest)
    _rule(page)
    for text in (five_axes.step(), *FOOT):
        line = page.words(text, small=True, quiet=True, room=width - 4, anchor="start")
        page.at(line, 0, page.bottom + 4)
    return page.done(". ".join(map(_said, every)))


def _said(axis: Axis) -> str:
    return (
        f"{axis.name} parallelism {axis.cuts} {axis.pays} It sends {axis.sends} {axis.often}: "
        f"{axis.formula}, {says.size(axis.sent)}"
    )


# Its parts


def _large(page: Canvas, text: str, size: float, anchor: str = "start") -> Shape:
    """Words of another size, bold."""
    wide = page.wide(text, size, True)

    def draw(page: Sheet, x: float, y: float) -> None:
        at = x if anchor == "start" else x + wide
        page.text(at, y + size, text, anchor=anchor, size=size, bold=True)

    return Shape(wide, size * 1.25, draw)


def _rule(page: Canvas) -> None:
    """A line across, with room above and below."""
    y = page.bottom + 12
    page.line(f"M0 {number(y)}H{number(page.width)}", opacity=0.25)
    page.bottom = y + 8


def _keys(page: Canvas) -> None:
    """What colours mean, and what the two drawings of a row are."""
    ranks = _cells(page, [list(range(DRAWN))], 14, 14)
    keys = [
        page.beside(ranks, page.words("what one of four ranks has", anchor="start"), gap=7),
        page.beside(
            _cells(page, [[None]], 14, 14), page.words("what each has whole", anchor="start"), gap=7
        ),
    ]
    place = page.stacked if page.narrow else page.beside
    page.at(place(*keys, align="start", gap=6 if page.narrow else 26), 0, page.bottom + 4)
    told = "Left the batch, sequences by tokens; then the model, layers by weights."
    page.at(page.words(told, room=page.width - 4, anchor="start"), 0, page.bottom + 4)


def _heading(page: Canvas, one: Axis) -> None:
    name = _large(page, one.name, 20)
    told = f"{one.cuts} {one.pays}"
    if page.narrow:
        page.at(name, 0, page.bottom)
        page.at(page.words(told, room=page.width - 4, anchor="start"), 0, page.bottom)
    else:
        page.at(
            page.beside(name, page.words(told, anchor="start"), gap=4, align="end"), 0, page.bottom
        )


def _row(page: Canvas, one: Axis, slowest: float) -> None:
    dots, said = _ranks(page), _travels(page, one)
    sent = page.beside(page.around(*dots, radius=32), said, gap=10)
    sent = page.placed(204, sent.high, [(sent, 0, 0)])
    numbers = _numbers(page, one, slowest, page.width - 456)
    page.row(_pictures(page, one), sent, numbers, gap=20, above=10)
    _arrows(page, one, dots)


def _phone_row(page: Canvas, one: Axis, slowest: float) -> None:
    dots = _ranks(page)
    row = page.beside(_pictures(page, one), page.around(*dots, radius=32), gap=36)
    page.at(row, 0, page.bottom + 10)
    _arrows(page, one, dots)
    page.at(_travels(page, one), 0, page.bottom + 8)
    page.at(_numbers(page, one, slowest, page.width - 2), 0, page.bottom + 6)


def _arrows(page: Canvas, one: Axis, dots: list[Shape]) -> None:
    for a, b in one.arrows:
        page.arrow(dots[a], dots[b], role="communication")


def _cells(page: Canvas, rows: Sequence[Sequence[Cell]], wide: float, high: float) -> Shape:
    """A drawing cut into cells, each in the colour of its rank; what all have is pale."""

    def draw(page: Sheet, x: float, y: float) -> None:
        for r, row in enumerate(rows):
            for c, rank in enumerate(row):
                left, top = x + c * wide, y + r * high
                if rank is None:
                    page.area(outline(left, top, wide, high), SHARED, 0.18)
                    page.frame(left, top, wide, high)
                else:
                    page.rect(left, top, wide, high, rank_look(rank, DRAWN))

    return Shape(len(rows[0]) * wide, len(rows) * high, draw)


def _pictures(page: Canvas, one: Axis) -> Shape:
    """The batch and the model, as they are cut."""
    layers = [_cells(page, [row], 96 / len(row), 16) for row in one.layer]
    return page.beside(_cells(page, one.batch, 12, 19), page.stacked(*layers, gap=4), gap=20)


def _ranks(page: Canvas) -> list[Shape]:
    looks = [rank_look(r, DRAWN) for r in range(DRAWN)]
    return [page.box("", role=look, wide=14, high=14, solid=True, tight=True) for look in looks]


def _travels(page: Canvas, one: Axis) -> Shape:
    """What is sent, and how often."""
    what = page.words(one.sends, bold=True, anchor="start")
    often = page.words(one.often, anchor="start")
    if page.narrow:
        return page.beside(what, often, gap=4)
    return page.stacked(what, often, gap=0, align="start")


def _numbers(page: Canvas, one: Axis, slowest: float, wide: float) -> Shape:
    """The formula, the bytes, and bars of seconds on the ground of the arithmetic."""
    formula, sent = (
        page.words(one.formula, anchor="start"),
        _large(page, says.size(one.sent), 18, "end"),
    )
    between = page.space(wide - formula.wide - sent.wide)
    head = page.beside(formula, between, sent, gap=0, align="end")
    return page.stacked(head, _bars(page, one, slowest, wide), gap=6, align="start")


def _bars(page: Canvas, one: Axis, slowest: float, wide: float) -> Shape:
    rows = {"arithmetic": (one.arithmetic, "forward")}
    rows |= {name: (one.sent / rate, "communication") for name, rate in five_axes.links().items()}
    if one.idle:
        rows["idle"] = one.idle, "idle"
    left, right, high = 66.0, 50.0, 17.0
    scale = (wide - left - right) / slowest

    def draw(page: Sheet, x: float, y: float) -> None:
        shade = outline(x + left, y, one.arithmetic * scale, high * len(rows))
        page.area(shade, look("forward"), 0.2)
        for i, (name, (seconds, role)) in enumerate(rows.items()):
            top, long = y + high * i, max(seconds * scale, 1)
            page.text(x, top + 13, name, size=page.small, quiet=True)
            page.rect(x + left, top + 5, long, 7, look(role), hatched=False)
            end = x + left + max(long, one.arithmetic * scale) + 6
            page.text(end, top + 13, says.time(seconds), size=page.small)

    return Shape(wide, high * len(rows), draw)
