"""Curves on linear or logarithmic axes, as SVG text; colours, sizes and the frame are those of
mathlib.show.svg.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from mathlib.checks import InputError
from mathlib.show.svg import SMALL, SPARE, WIDTH, drawing, limit_line, number, text, ticks

TOP, BOTTOM, LEFT = 30.0, 262.0, 70.0
MARKED = 40  # points of a curve that get a marker
Show = Callable[[float], str]
DASHES = ("", "7 4", "2 3", "9 3 2 3")
MARKERS = (  # circle, square, triangle, diamond
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "M-4 -4h8v8h-8z",
    "M0 -5L5 4H-5z",
    "M-5 0L0 -5L5 0L0 5z",
)


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, thinned out to at most seven."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 7))
    return [10.0**e for e in range(first, last + 1, every)]


class _Axis:
    """Values to places on one axis, linear or logarithmic, with its ticks."""

    def __init__(self, values: Sequence[float], start: float, stop: float, log: bool):
        low, high = min(values), max(values)
        if log and low <= 0:
            raise InputError(
                f"value = {low!r}: expected a number greater than 0 on a logarithmic axis"
            )
        self.log, self.start, self.stop = log, start, stop
        if not log:
            low = min(low, 0)
            high = high if high > low else low + 1
        elif low == high:
            low, high = low / 2, high * 2
        self.low, self.high = low, high
        self.ticks = decades(low, high) if log and high >= 10 * low else ticks(low, high)

    def place(self, value: float) -> float:
        f = math.log10 if self.log else float
        share = (f(value) - f(self.low)) / (f(self.high) - f(self.low))
        return self.start + share * (self.stop - self.start)


def _frame(x: _Axis, y: _Axis, titles: tuple[str, str], shows: tuple[Show, Show]) -> str:
    """Both axes with ticks, grid and titles."""
    (x_title, y_title), (show_x, show_y) = titles, shows
    left, right = number(x.start), number(x.stop + 8)
    bottom, top = number(y.start), number(y.stop)
    out = [
        text(0, 14, y_title),
        text((x.start + WIDTH) / 2, y.start + 44, x_title, anchor="middle"),
    ]
    for tick in y.ticks:
        high = y.place(tick)
        out.append(
            f'<path d="M{left} {number(high)}H{right}" stroke="currentColor" stroke-opacity=".25"/>'
        )
        out.append(text(x.start - 6, high + 4, show_y(tick), anchor="end", size=SMALL))
    for tick in x.ticks:
        out.append(f'<path d="M{number(x.place(tick))} {bottom}v5" stroke="currentColor"/>')
        out.append(text(x.place(tick), y.start + 20, show_x(tick), anchor="middle", size=SMALL))
    return (
        "".join(out)
        + f'<path d="M{left} {top}V{bottom}H{right}" stroke="currentColor" fill="none"/>'
    )


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    show_x: Show,
    show_y: Show,
    log_x: bool = False,
    log_y: bool = False,
    limit: float | None = None,
    limit_label: str = "limit",
) -> str:
    """Curves on one pair of axes; each has its own colour, dash and marker."""
    points = [p for curve in series.values() for p in curve]
    heights = [p[1] for p in points]
    if limit is not None:
        heights.append(limit)
    x = _Axis([p[0] for p in points], LEFT, WIDTH - 16.0, log_x)
    y = _Axis(heights, BOTTOM, TOP, log_y)
    out = [_frame(x, y, (x_title, y_title), (show_x, show_y))]
    said = []
    for place, (name, curve) in enumerate(series.items()):
        hints = [f"{name}: {show_x(a)}, {show_y(b)}" for a, b in curve[:MARKED]]
        points = [(x.place(a), y.place(b)) for a, b in curve]
        out.append(_curve(place, points, hints) + _name(place, name))
        ends = ", ".join(f"{show_y(b)} at {show_x(a)}" for a, b in (curve[0], curve[-1]))
        said.append(f"{name}: {ends}")
    if limit is not None:
        said.append(f"{limit_label}: {show_y(limit)}")
        out.append(_limit(y.place(limit), said[-1]))
    return drawing(BOTTOM + 62 + 20 * len(series), title, ". ".join(said) + ".", "".join(out))


def _look(place: int) -> tuple[str, str]:
    """(colour, dash) of a curve."""
    return SPARE[place % len(SPARE)][0], DASHES[place % len(DASHES)]


def _curve(place: int, points: Sequence[tuple[float, float]], hints: Sequence[str]) -> str:
    """A line through the points, and a marker with its numbers on the first ones."""
    colour, dash = _look(place)
    path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    line = (
        f'<path d="M{path}" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}" '
        'fill="none"/>'
    )
    marked = zip(points, hints, strict=False)
    return line + "".join(_marker(place, x, y, colour, hint) for (x, y), hint in marked)


def _name(place: int, name: str) -> str:
    """A curve's line in the legend."""
    colour, _ = _look(place)
    y = BOTTOM + 66 + 20 * place
    return _marker(place, 8, y, colour) + text(22, y + 5, name)


def _limit(y: float, words: str) -> str:
    line = limit_line(f"M{number(LEFT)} {number(y)}H{WIDTH - 8}")
    return line + text(WIDTH - 10, y - 6, words, anchor="end", size=SMALL, weight="bold")


def _marker(place: int, x: float, y: float, colour: str, hint: str = "") -> str:
    shape = MARKERS[place % len(MARKERS)]
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<path transform="translate({number(x)} {number(y)})" d="{shape}" fill="{colour}">'
        f"{title}</path>"
    )
