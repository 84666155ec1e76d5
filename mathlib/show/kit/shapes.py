"""Shapes of a scheme: each knows its size and how to draw itself; a canvas finds its place.

Every function takes the sheet first, whose letters it measures; a Canvas has them as methods:
page.box("gradients", role="gradients"). A string among shapes stands for its words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from mathlib.show.kit import letters
from mathlib.show.kit.sheet import Sheet, ink, number, place
from mathlib.show.roles import Look, look

LEADING, PAD = 1.3, 9.0
NEUTRAL: Look = ("#8a8f98", "")


@dataclass(frozen=True, eq=False)
class Shape:
    """Something of a known size, drawn from its left upper corner, with the shapes inside it."""

    wide: float
    high: float
    draw: Callable[[Sheet, float, float], None]
    inner: "tuple[tuple[Shape, float, float], ...]" = ()  # a shape, and where it stands in this one


Drawable = Shape | str


def looked_up(role: str | Look) -> Look:
    """A role's look; a look is taken as it is, and no role is grey."""
    if not isinstance(role, str):
        return role
    return look(role) if role else NEUTRAL


def space(page: Sheet, wide: float = 0, high: float = 0) -> Shape:
    """An empty place, which keeps columns apart or lines level."""
    return Shape(wide, high, lambda page, x, y: None)


def words(
    page: Sheet,
    text: str,
    *,
    bold: bool = False,
    quiet: bool = False,
    small: bool = False,
    room: float = 0,
    anchor: str = "middle",
    colour: str = "",
) -> Shape:
    """Lines of words; with `room` they are broken where they would be wider."""
    size = page.small if small else page.size
    parts = text.split("\n")
    if room:
        parts = [line for part in parts for line in letters.lines(part, room, size, bold)]
    wide = max(page.wide(line, size, bold) for line in parts)
    leading = size * LEADING

    def draw(page: Sheet, x: float, y: float) -> None:
        at = {"start": x, "middle": x + wide / 2, "end": x + wide}[anchor]
        for i, line in enumerate(parts):
            low = y + leading * i + size
            page.text(
                at, low, line, anchor=anchor, size=size, bold=bold, quiet=quiet, colour=colour
            )

    return Shape(wide, leading * len(parts), draw)


def box(
    page: Sheet,
    text: str,
    *,
    role: str | Look = "",
    note: str = "",
    wide: float = 0,
    high: float = 0,
    solid: bool = False,
    tight: bool = False,
    hint: str = "",
) -> Shape:
    """A box around its words, at least `wide` and `high`: tinted, or `solid` in its colour. `note`
    is a second, quieter text.
    """
    style = looked_up(role)
    colour = ink(style[0]) if solid else ""
    lines = [words(page, text, bold=bool(note), colour=colour)] if text else []
    if note:
        lines.append(words(page, note, small=True, quiet=not solid, colour=colour))
    inside = stacked(page, *lines, gap=0)
    pad = 1.5 if tight else PAD
    wide = max(wide, inside.wide + 2 * pad)
    high = max(high, inside.high + pad)

    def draw(page: Sheet, x: float, y: float) -> None:
        page.rect(x, y, wide, high, style, hint, radius=4, tint=not solid, hatched=solid)
        inside.draw(page, x + (wide - inside.wide) / 2, y + (high - inside.high) / 2)

    return Shape(wide, high, draw)


def grid(
    page: Sheet,
    cells: Sequence[Sequence[str | Look | None]],
    *,
    cell: float = 16,
    high: float = 0,
    texts: Sequence[Sequence[str]] = (),
    hint: str = "",
) -> Shape:
    """Rows of cells, each filled with its role's colour; None is left empty. `texts` go inside."""
    high = high or cell
    rows, columns = len(cells), len(cells[0])

    def draw(page: Sheet, x: float, y: float) -> None:
        for r, row in enumerate(cells):
            for c, role in enumerate(row):
                left, top = x + c * cell, y + r * high
                if role is not None:
                    page.rect(left, top, cell, high, looked_up(role), hint)
                else:
                    page.frame(left, top, cell, high)
                if texts and texts[r][c]:
                    colour = ink(looked_up(role)[0]) if role is not None else ""
                    at, low = left + cell / 2, top + high / 2 + page.small * 0.35
                    page.text(at, low, texts[r][c], anchor="middle", size=page.small, colour=colour)

    return Shape(columns * cell, rows * high, draw)


def matrix(
    page: Sheet,
    name: str,
    *,
    rows: int,
    columns: int,
    role: str | Look = "",
    row_label: str = "",
    column_label: str = "",
    filled: Callable[[int, int], bool] | None = None,
    cell: float = 15,
) -> Shape:
    """A matrix as a grid of cells with its name in the middle, `row_label` at its left and
    `column_label` above it. `filled(row, column)` says which cells have their colour.
    """
    wide, high = columns * cell, rows * cell
    style = looked_up(role)
    left = page.wide(row_label, page.small) + 6 if row_label else 0
    top = page.small + 6 if column_label else 0
    over = page.wide(name, bold=True)
    inside = over < wide - 2
    under = 0 if inside or not name else page.size * LEADING
    whole = max(wide, over if under else 0)

    def draw(page: Sheet, x: float, y: float) -> None:
        x, y = x + left + (whole - wide) / 2, y + top
        page.rect(x, y, wide, high, style, name, tint=True, hatched=False)
        for r in range(rows):
            for c in range(columns):
                if filled is not None and filled(r, c):
                    page.rect(x + c * cell, y + r * cell, cell, cell, style)
        down = "".join(f"M{place(x + c * cell, y)}v{number(high)}" for c in range(1, columns))
        along = "".join(f"M{place(x, y + r * cell)}h{number(wide)}" for r in range(1, rows))
        page.line(down + along, colour=style[0], width=0.8, opacity=0.5)
        middle = x + wide / 2
        if row_label:
            low = y + high / 2 + page.small * 0.35
            page.text(x - 6, low, row_label, anchor="end", size=page.small, quiet=True)
        if column_label:
            page.text(middle, y - 6, column_label, anchor="middle", size=page.small, quiet=True)
        if name:
            low = y + high / 2 + page.size * 0.35 if inside else y + high + page.size + 1
            page.text(middle, low, name, anchor="middle", bold=True)

    return Shape(
        whole + left, high + top + max(under, top), draw
    )  # its middle is the cells' middle


def strip(
    page: Sheet, parts: Sequence[tuple[str, float, str | Look]], *, wide: float, high: float = 28
) -> Shape:
    """One bar cut into parts (label, amount, role), each as long as its amount; a label stands
    inside where it fits.
    """
    total = sum(amount for _, amount, _ in parts) or 1

    def draw(page: Sheet, x: float, y: float) -> None:
        for label, amount, role in parts:
            length = wide * amount / total
            page.rect(x, y, length, high, looked_up(role), label)
            if page.wide(label, page.small) + 6 < length:
                at, low = x + length / 2, y + high / 2 + page.small * 0.35
                colour = ink(looked_up(role)[0])
                page.text(at, low, label, anchor="middle", size=page.small, colour=colour)
            x += length

    return Shape(wide, high, draw)


def _shapes(page: Sheet, given: Sequence[Drawable], anchor: str = "middle") -> list[Shape]:
    return [words(page, one, anchor=anchor) if isinstance(one, str) else one for one in given]


def placed(page: Sheet, wide: float, high: float, inner: list[tuple[Shape, float, float]]) -> Shape:
    """Several shapes as one."""

    def draw(page: Sheet, x: float, y: float) -> None:
        for shape, dx, dy in inner:
            shape.draw(page, x + dx, y + dy)

    return Shape(wide, high, draw, tuple(inner))


SIDES = {"start": 0.0, "middle": 0.5, "end": 1.0}


def beside(page: Sheet, *given: Drawable, gap: float = 14, align: str = "middle") -> Shape:
    """Shapes from left to right as one shape."""
    shapes = _shapes(page, given)
    high = max((s.high for s in shapes), default=0)
    inner, x = [], 0.0
    for shape in shapes:
        inner.append((shape, x, (high - shape.high) * SIDES[align]))
        x += shape.wide + gap
    return placed(page, max(0, x - gap), high, inner)


def stacked(page: Sheet, *given: Drawable, gap: float = 10, align: str = "middle") -> Shape:
    """Shapes from top to bottom as one shape."""
    shapes = _shapes(page, given, align)
    wide = max((s.wide for s in shapes), default=0)
    inner, y = [], 0.0
    for shape in shapes:
        inner.append((shape, (wide - shape.wide) * SIDES[align], y))
        y += shape.high + gap
    return placed(page, wide, max(0, y - gap), inner)


def panel(page: Sheet, title: str, content: Drawable, *, note: str = "", wide: float = 0) -> Shape:
    """One of several small pictures: a bold title above it, a quiet note beneath."""
    (inside,) = _shapes(page, [content])
    room = max(wide, inside.wide, page.wide(title, bold=True))
    parts = [words(page, title, bold=True), inside]
    if note:
        parts.append(words(page, note, small=True, quiet=True, room=room))
    return stacked(page, *parts, gap=6)


def around(page: Sheet, *given: Drawable, radius: float) -> Shape:
    """Shapes on a circle, clockwise from the top: a ring of ranks."""
    shapes = _shapes(page, given)
    wide, high = max(s.wide for s in shapes), max(s.high for s in shapes)
    inner = []
    for i, shape in enumerate(shapes):
        angle = 2 * pi * i / len(shapes)
        x = wide / 2 + radius * (1 + sin(angle)) - shape.wide / 2
        y = high / 2 + radius * (1 - cos(angle)) - shape.high / 2
        inner.append((shape, round(x, 6), round(y, 6)))  # libraries differ in the last bits
    low, deep = min(y for _, _, y in inner), max(y + s.high for s, _, y in inner)
    inner = [(s, x, y - low) for s, x, y in inner]
    return placed(page, wide + 2 * radius, deep - low, inner)
