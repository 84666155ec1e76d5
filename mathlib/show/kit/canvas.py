"""A canvas: rows of shapes from the top down, then arrows and braces between them.

Nobody types coordinates: a shape is named by the variable that holds it.

    page = Canvas(width, "One matmul")
    x = page.matrix("X", rows=4, columns=3, role="activations")
    y = page.matrix("Y", rows=4, columns=5, role="activations")
    page.row(x, y, gap=90)
    page.arrow(x, y, "X W")
    return page.done("X becomes Y")
"""

from dataclasses import dataclass
from math import hypot

from mathlib.checks import ceil_div
from mathlib.show.kit import letters, shapes
from mathlib.show.kit.shapes import Drawable, Shape
from mathlib.show.kit.sheet import Point, Sheet, number, place
from mathlib.show.roles import Look

AWAY = 4.0  # an arrow's distance from what it touches


@dataclass(frozen=True)
class Place:
    """Where a shape stands."""

    x: float
    y: float
    wide: float
    high: float

    @property
    def centre(self) -> Point:
        return self.x + self.wide / 2, self.y + self.high / 2

    def edge(self, towards: Point) -> Point:
        """Where the way from the centre to a point leaves the shape."""
        (x, y), (px, py) = self.centre, towards
        dx, dy = px - x, py - y
        shares = [(self.wide / 2 + AWAY) / abs(dx)] if dx else []
        shares += [(self.high / 2 + AWAY) / abs(dy)] if dy else []
        share = min([*shares, 1.0])
        return x + dx * share, y + dy * share


class Canvas(Sheet):
    """A sheet that finds places. Shapes are made by its methods and placed by row, column, flow."""

    words, box, grid, matrix, strip = (
        shapes.words,
        shapes.box,
        shapes.grid,
        shapes.matrix,
        shapes.strip,
    )
    beside, stacked, panel, around = shapes.beside, shapes.stacked, shapes.panel, shapes.around
    space, placed = shapes.space, shapes.placed

    def __init__(self, width: float, title: str = ""):
        super().__init__(width)
        self.name = title
        self.places: dict[Shape, Place] = {}
        if title:
            self.bottom = self.title(title)

    def done(self, said: str) -> str:
        """The finished picture; `said` tells it to those who do not see it."""
        return self.svg(self.name, said)

    # Placing

    def at(self, shape: Shape, x: float, y: float) -> Shape:
        """Put a shape's left upper corner somewhere: for what rows and columns cannot do."""
        shape.draw(self, x, y)
        self._keep(shape, x, y)
        self.bottom = max(self.bottom, y + shape.high)
        return shape

    def _keep(self, shape: Shape, x: float, y: float) -> None:
        self.places[shape] = Place(x, y, shape.wide, shape.high)
        for one, dx, dy in shape.inner:
            self._keep(one, x + dx, y + dy)

    def row(
        self, *given: Drawable, gap: float = 14, above: float = 14, align: str = "middle"
    ) -> Shape:
        """Shapes beside each other, in the middle of the sheet, below all that is there."""
        row = shapes.beside(self, *given, gap=gap, align=align)
        return self.at(row, (self.width - row.wide) / 2, self.bottom + above)

    def column(
        self, *given: Drawable, gap: float = 14, above: float = 14, align: str = "middle"
    ) -> Shape:
        """Shapes under each other, in the middle of the sheet."""
        column = shapes.stacked(self, *given, gap=gap, align=align)
        return self.at(column, (self.width - column.wide) / 2, self.bottom + above)

    def flow(self, *given: Shape, gap: float = 24, above: float = 14, most: int = 0) -> None:
        """Small multiples: as many beside each other as the width takes, in columns as wide as the
        widest.
        """
        wide = max(shape.wide for shape in given)
        fit = max(1, int((self.width + gap) / (wide + gap)))
        count = min(fit, len(given), most or fit)
        lines = ceil_div(len(given), count)
        count = ceil_div(len(given), lines)  # no line much shorter than the others
        pitch = min(wide + 3 * gap, self.width / count)
        left = (self.width - pitch * count) / 2
        for start in range(0, len(given), count):
            top = self.bottom + above
            for i, shape in enumerate(given[start : start + count]):
                self.at(shape, left + pitch * (i + 0.5) - shape.wide / 2, top)

    def note(self, text: str, above: float = 10) -> Shape:
        """A quiet sentence across the sheet."""
        line = shapes.words(self, text, small=True, quiet=True, room=self.width - 20)
        return self.row(line, above=above)

    def last(self, shape: Shape) -> Shape:
        """The last of the shapes inside of one, and so on down to the innermost."""
        return self.last(shape.inner[-1][0]) if shape.inner else shape

    # Between shapes

    def arrow(
        self,
        a: Shape,
        b: Shape,
        label: str = "",
        *,
        bend: float = 0,
        role: str | Look = "",
        dash: str = "",
        side: int = 1,
        heavy: bool = False,
    ) -> None:
        """From a to b: straight, or bent to the left (below 0) or right of its way. The label
        stands above a level arrow and right of an upright one; `side=-1` is the other side.
        """
        one, two = self.places[a], self.places[b]
        (xa, ya), (xb, yb) = one.centre, two.centre
        control = (xa + xb) / 2 - (yb - ya) * bend, (ya + yb) / 2 + (xb - xa) * bend
        start, end = one.edge(control), two.edge(control)
        colour = shapes.looked_up(role)[0] if role else "currentColor"
        width, pale = (2.2 if heavy or role else 1.3), (1 if role else 0.7)
        path = f"M{place(*start)}Q{place(*control)} {place(*end)}"
        if not bend:
            path = f"M{place(*start)}L{place(*end)}"
        self.line(path, colour=colour, width=width, opacity=pale, dash=dash)
        self._head(control, end, colour, width, pale)
        if label:
            middle = tuple((p + 2 * q + r) / 4 for p, q, r in zip(start, control, end, strict=True))
            if bend:
                self._outside(middle, control, label)
            else:
                self._label(middle, (xb - xa, yb - ya), label, side)

    def drop(self, a: Shape, b: Shape, *, leaves: float = 0, role: str | Look = "") -> None:
        """Straight down from a to b, at the middle of the narrower one; or from the foot of a at
        `leaves` to the head of b.
        """
        one, two = self.places[a], self.places[b]
        x = one.centre[0] if one.wide <= two.wide else two.centre[0]
        start = (leaves or x, one.y + one.high + AWAY)
        end = (x, two.y - AWAY)
        if leaves:  # as upright as b allows
            end = (min(max(leaves, two.x + 6), two.x + two.wide - 2), end[1])
        colour = shapes.looked_up(role)[0] if role else "currentColor"
        self.line(f"M{place(*start)}L{place(*end)}", colour=colour, width=1.3, opacity=0.7)
        self._head(start, end, colour, 1.3, 0.7)

    def arc(
        self,
        a: Shape,
        b: Shape,
        *,
        role: str | Look = "",
        both: bool = False,
        width: float = 1.5,
    ) -> None:
        """A bow above two shapes of a row, the higher the farther they are apart."""
        one, two = self.places[a], self.places[b]
        high = 5 + abs(two.centre[0] - one.centre[0]) * 0.22
        shift = 3.0 if two.x > one.x else -3.0  # there and back lie beside each other
        start = one.centre[0] + (0 if both else shift), one.y - 2
        end = two.centre[0] - (0 if both else shift), two.y - 2
        up = (start[0], start[1] - 1.33 * high), (end[0], end[1] - 1.33 * high)
        colour = shapes.looked_up(role)[0] if role else "currentColor"
        path = f"M{place(*start)}C{place(*up[0])} {place(*up[1])} {place(*end)}"
        self.line(path, colour=colour, width=round(width, 1))
        self._head(up[1], end, colour, min(width, 2), 1)
        if both:
            self._head(up[0], start, colour, min(width, 2), 1)

    def _outside(self, middle: tuple[float, ...], control: Point, text: str) -> None:
        """A bent arrow's label: on its outer side."""
        (x, y), (cx, cy) = middle, control
        long = hypot(cx - x, cy - y) or 1
        x, y = x + (cx - x) / long * 13, y + (cy - y) / long * 13
        self.text(x, y + self.small * 0.35, text, anchor="middle", size=self.small)

    def _head(self, tail: Point, tip: Point, colour: str, width: float, opacity: float) -> None:
        """The two strokes of an arrow's head."""
        dx, dy = tip[0] - tail[0], tip[1] - tail[1]
        long = hypot(dx, dy) or 1
        dx, dy = dx / long * (5 + width), dy / long * (5 + width)
        left = tip[0] - dx - dy * 0.55, tip[1] - dy + dx * 0.55
        right = tip[0] - dx + dy * 0.55, tip[1] - dy - dx * 0.55
        path = f"M{place(*left)}L{place(*tip)}L{place(*right)}"
        self.line(path, colour=colour, width=width, opacity=opacity)

    def _label(self, middle: tuple[float, ...], way: Point, text: str, side: int) -> None:
        x, y = middle
        lines = text.split("\n")
        level = abs(way[0]) > abs(way[1])
        leading = self.small * 1.25
        if level:
            top = y - 6 - leading * (len(lines) - 1) if side > 0 else y + self.small + 5
        else:
            x += 7 * side
            top = y + self.small * 0.35 - leading * (len(lines) - 1) / 2
        anchor = "middle" if level else ("start" if side > 0 else "end")
        for i, line in enumerate(lines):
            half = self.wide(line, self.small) / 2
            at = min(max(x, half), self.width - half) if level else x
            self.text(at, top + leading * i, line, anchor=anchor, size=self.small)

    def brace(
        self, first: Shape, last: Shape, label: str, *, side: str = "below", role: str | Look = ""
    ) -> None:
        """A curly brace from one shape to another with words at its tip: below, above or right."""
        one, two = self.places[first], self.places[last]
        left, top = min(one.x, two.x), min(one.y, two.y)
        right = max(one.x + one.wide, two.x + two.wide)
        low = max(one.y + one.high, two.y + two.high)
        colour = shapes.looked_up(role)[0] if role else "currentColor"
        pale = 1 if role else 0.7
        if side == "right":
            self._brace_right(right + 5, top, low, label, colour, pale)
            return
        turn = 1 if side == "below" else -1
        y, middle = (low + 5 if turn > 0 else top - 5), (left + right) / 2
        d = min(6.0, (right - left) / 4)
        path = (
            f"M{place(left, y)}q0 {turn * 6} {number(d)} {turn * 6}H{number(middle - d)}"
            f"q{number(d)} 0 {number(d)} {turn * 6}q0 {-turn * 6} {number(d)} {-turn * 6}"
            f"H{number(right - d)}q{number(d)} 0 {number(d)} {-turn * 6}"
        )
        self.line(path, colour=colour, opacity=pale, width=1.3)
        lines = label.split("\n")
        base = y + 14 + self.small if turn > 0 else y - 18 - self.small * 1.2 * (len(lines) - 1)
        for i, line in enumerate(lines):
            half = self.wide(line, self.small) / 2
            at = min(max(middle, half), self.width - half)
            self.text(at, base + self.small * 1.2 * i, line, anchor="middle", size=self.small)

    def bracket(self, first: Shape, last: Shape, label: str) -> None:
        """A square bracket left of a column, its words upright: what is repeated."""
        one, two = self.places[first], self.places[last]
        x, top, low = min(one.x, two.x) - 6, one.y, two.y + two.high
        self.line(f"M{place(x, top)}h-6V{number(low)}h6", opacity=0.6, width=1.3)
        self.upright(x - 12, (top + low) / 2, label)

    def _brace_right(
        self, x: float, top: float, low: float, label: str, colour: str, pale: float
    ) -> None:
        middle = (top + low) / 2
        d = min(6.0, (low - top) / 4)
        path = (
            f"M{place(x, top)}q6 0 6 {number(d)}V{number(middle - d)}q0 {number(d)} 6 {number(d)}"
            f"q-6 0 -6 {number(d)}V{number(low - d)}q0 {number(d)} -6 {number(d)}"
        )
        self.line(path, colour=colour, opacity=pale, width=1.3)
        lines = letters.lines(label, max(60.0, self.width - x - 18), self.small)
        leading = self.small * 1.25
        base = middle + self.small * 0.35 - leading * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            self.text(x + 18, base + leading * i, line, size=self.small)
