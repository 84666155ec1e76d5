"""Curves on linear or logarithmic axes, as SVG text for two widths.

A curve's name stands at its end where there is room, else in a line above.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from mathlib.checks import InputError, ceil_div
from mathlib.show.figures import both, figure_html
from mathlib.show.kit import letters
from mathlib.show.kit.sheet import Sheet, number, outline, place
from mathlib.show.roles import ROLES, SPARE, worded
from mathlib.show.svg import ticks

HIGH = 250.0  # of the frame
MARKED = 40  # markers of a curve at most
FEWEST = 3  # ticks of an axis
Show = Callable[[float], str]
Points = Sequence[tuple[float, float]]
DASHES = ("", "7 4", "2 3", "9 3 2 3")
Spots = tuple[tuple[float, float, float], ...]
BESIDE: Spots = (  # a point: right, down, widths back
    *((9, -8, 0), (9, 16, 0), (-9, -8, 1), (-9, 16, 1)),
    *((0, -10, 0.5), (0, 20, 0.5), (12, 4, 0), (-12, 4, 1)),
)
BEHIND: Spots = ((9, 4, 0), (0, -10, 0.5), (0, 20, 0.5))  # a curve's end
FARTHER: Spots = (
    (9, 20, 0),
    *((9 - 18 * back, up, back) for up in (-24, 32, -40) for back in (0, 1)),
)
LETTERS = (-9, -4, 1)  # top, middle and foot of words
RING = "a9 9 0 1 0 18 0a9 9 0 1 0 -18 0"
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


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; where these are fewer than three, also 2 and 5 times those, or round
    numbers.
    """
    found = decades(low, high)
    if len(found) >= FEWEST:
        return found
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [k * 10.0**e for e in range(first, last + 1) for k in (1, 2, 5)]
    found = [s for s in steps if low * (1 - 1e-9) <= s <= high * (1 + 1e-9)]
    return found if len(found) >= FEWEST else [t for t in ticks(low, high) if t > 0]


class Axis:
    """Values to places on one axis, linear or logarithmic, with its ticks: those that are given,
    and then it reaches as far as they do, or round numbers.
    """

    def __init__(self, values: Sequence[float], log: bool, given: Sequence[float] = ()):
        low, high = min([*values, *given]), max([*values, *given])
        if log and low <= 0:
            raise InputError(
                f"value = {low!r}: expected a number greater than 0 on a logarithmic axis"
            )
        self.log = log
        self.start = self.stop = 0.0
        if not log:
            low = low if given else min(low, 0)
            high = high if high > low else low + 1
        elif low == high:
            low, high = low / 2, high * 2
        self.low, self.high = low, high
        self.ticks = list(given) or (log_ticks(low, high) if log else ticks(low, high))

    def spread(self, start: float, stop: float) -> None:
        """Where on the sheet its ends lie."""
        self.start, self.stop = start, stop

    def place(self, value: float) -> float:
        f = math.log10 if self.log else float
        share = (f(value) - f(self.low)) / (f(self.high) - f(self.low))
        return self.start + share * (self.stop - self.start)

    def fitting(self, words: Sequence[str], page: Sheet) -> list[tuple[float, str]]:
        """Every tick with its words, or every second, or every third, so that they stay apart."""
        named = list(zip(self.ticks, words, strict=True))
        for every in range(1, len(named) + 1):
            kept = named[::every]
            ends = [(self.place(t), page.wide(w, page.small) / 2) for t, w in kept]
            if all(b - q - a - p > 8 for (a, p), (b, q) in zip(ends, ends[1:], strict=False)):
                return kept
        return named[:1]


@dataclass(frozen=True)
class Curves:
    """What is drawn, whatever the width."""

    series: Mapping[str, Points]
    title: str
    x_title: str
    y_title: str
    show_x: Show
    show_y: Show
    log_x: bool = False
    log_y: bool = False
    limit: float | None = None
    limit_label: str = "limit"
    limit_quiet: bool = False  # no wall but a mark to compare with: grey, told in an axis' title
    band: tuple[float, float] | None = None  # from here to there on the level axis, pale
    band_label: str = "range"
    mark: float | None = None  # one place on the level axis, a dashed line
    mark_label: str = "mark"
    x_ticks: Sequence[float] = ()  # instead of round numbers
    y_ticks: Sequence[float] = ()
    lowest: bool = False  # a ring around each curve's lowest points
    beside: bool = False  # a name stands at its curve, not at the right edge, and off the mark
    equal: bool = False  # one is as long upwards as across: a plane

    def __post_init__(self) -> None:
        if self.equal and (self.log_x or self.log_y):
            raise InputError("equal = True: expected two linear axes")

    def axes(self) -> tuple[Axis, Axis]:
        points = [p for curve in self.series.values() for p in curve]
        heights = [y for _, y in points]
        if self.limit is not None:
            heights.append(self.limit)
        across = [*(x for x, _ in points), *(self.band or ())]
        if self.mark is not None:
            across.append(self.mark)
        return Axis(across, self.log_x, self.x_ticks), Axis(heights, self.log_y, self.y_ticks)

    def look(self, name: str) -> tuple[str, str, str]:
        """(colour, dash, marker) of a curve: its role's colour if its name is one."""
        place = list(self.series).index(name)
        colour = ROLES[name][0] if name in ROLES else SPARE[place % len(SPARE)][0]
        return colour, DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]

    def said(self) -> str:
        """The curves in words: where each begins and ends."""
        told = []
        for name, curve in self.series.items():
            ends = ", ".join(
                f"{self.show_y(b)} at {self.show_x(a)}" for a, b in (curve[0], curve[-1])
            )
            if self.lowest and len(curve) > 1:
                ends += f", least {self.show_y(min(b for _, b in curve))}"
            told.append(f"{name}: {ends}")
        if self.limit is not None:
            told.append(f"{self.limit_label}: {self.show_y(self.limit)}")
        if self.band:
            low, high = map(self.show_x, self.band)
            told.append(f"{self.band_label}: {low} to {high}")
        if self.mark is not None:
            told.append(f"{self.mark_label}: {self.show_x(self.mark)}")
        return ". ".join(told) + "."


def lines(
    series: Mapping[str, Points], *, caption: str = "", name: str = "", **given: object
) -> str:
    """Curves on one pair of axes; each has its own colour, dash and marker. `given` are the fields
    of Curves: title, x_title, y_title, show_x, show_y, log_x, log_y, limit, limit_label, band,
    band_label, mark, mark_label, x_ticks, y_ticks, lowest, equal.
    """
    chart = Curves(series, **given)  # type: ignore[arg-type]
    return figure_html(both(partial(_lines, chart=chart)), caption, name)


def _lines(width: float, chart: Curves) -> str:
    page = Sheet(width)
    x, y = chart.axes()
    top = page.title(chart.title)
    names = list(chart.series)
    long = [name for name in names if len(chart.series[name]) > 1]  # others stand at their point
    room = max((page.wide(name, page.small, bold=True) for name in long), default=0) + 14
    direct = len(names) > 1 and room < width * 0.3
    if len(names) > 1 and not direct:
        top = _legend(page, chart, long, top)
    page.text(0, top + 12, chart.y_title, size=page.small, quiet=True)
    top += 38 if len(long) < len(names) else 26  # room for a point's name above the highest tick
    numbers = [chart.show_y(tick) for tick in y.ticks]
    left = max(page.wide(words, page.small) for words in [*numbers, ""]) + 10
    x.spread(left, width - (room if direct else 16))
    high = (x.stop - x.start) * (y.high - y.low) / (x.high - x.low) if chart.equal else HIGH
    y.spread(top + high, top)
    frame(page, x, y, numbers, [chart.show_x(tick) for tick in x.ticks], chart.x_title)
    _band(page, chart, x, y)
    _mark(page, chart, x, y)
    for name in names:
        _curve(page, chart, name, x, y)
    if len(names) > 1:
        _names(page, chart, x, y, direct)
    if chart.limit is not None:
        _limit(page, chart, x, y)
    return page.svg(chart.title, chart.said(), y.start + 44)


def frame(
    page: Sheet, x: Axis, y: Axis, up: Sequence[str], across: Sequence[str], x_title: str
) -> None:
    """Both axes: ticks with the words given for them, grid, and the title below."""
    for tick, words in zip(y.ticks, up, strict=True):
        high = y.place(tick)
        page.line(f"M{place(x.start, high)}H{number(x.stop)}", opacity=0.15)
        page.text(x.start - 7, high + 4.5, words, anchor="end", size=page.small, quiet=True)
    for tick, words in x.fitting(across, page):
        at, half = x.place(tick), page.wide(words, page.small) / 2
        page.line(f"M{place(at, y.start)}v5", opacity=0.6)
        at = min(max(at, half), page.width - half)
        page.text(at, y.start + 19, words, anchor="middle", size=page.small, quiet=True)
    page.line(f"M{place(x.start, y.start)}H{number(x.stop)}", opacity=0.6)
    middle = (x.start + x.stop) / 2
    page.text(middle, y.start + 38, x_title, anchor="middle", size=page.small, quiet=True)


def _curve(page: Sheet, chart: Curves, name: str, x: Axis, y: Axis) -> None:
    """A line through the points; a marker with its numbers on each, or of many on every k-th."""
    colour, dash, marker = chart.look(name)
    curve = chart.series[name]
    path = "L".join(place(x.place(a), y.place(b)) for a, b in curve)
    page.line(f"M{path}", colour=colour, width=2.5, dash=dash)
    for a, b in curve[:: ceil_div(len(curve), MARKED)]:
        hint = f"{name}: {chart.show_x(a)}, {chart.show_y(b)}"
        page.mark(x.place(a), y.place(b), marker, colour, hint)
    for a, low in least(curve) if chart.lowest else ():
        page.line(f"M{place(x.place(a) - 9, y.place(low))}{RING}", colour=colour, width=1.8)


def least(curve: Points) -> list[tuple[float, float]]:
    """A curve's lowest points."""
    low = min(b for _, b in curve)
    return [(a, low) for a, b in curve if b <= low * (1 + 1e-9)]


def _names(page: Sheet, chart: Curves, x: Axis, y: Axis, direct: bool) -> None:
    """A single point's name beside it, where it covers least; with `direct`, a curve's name behind
    its end where nothing else is, or at the right edge, moved so that no two touch.

    `chart.beside`: a curve that ends before the edge has its name along it, where it covers least.
    """
    drawn = {n: [(x.place(a), y.place(b)) for a, b in c] for n, c in chart.series.items()}
    lines = [y.start] if chart.limit is None else [y.start, y.place(chart.limit)]
    across = [[(x.start, high), (x.stop, high)] for high in lines]
    taken = [spot for curve in (*drawn.values(), *across) for spot in _along(curve)]
    if chart.beside and chart.mark is not None:
        taken += _along([(x.place(chart.mark), y.start), (x.place(chart.mark), y.stop)])
        for at, high, words, anchor in _mark_words(page, chart, x, y):
            wide = page.wide(words, page.small)
            taken += _filled(at - wide * (anchor == "end"), high, wide)
    waiting, chosen = [], {}
    for name in sorted(drawn, key=lambda name: len(drawn[name]) > 1):  # points come first
        at, high = max(drawn[name])  # the right end, whichever way it was listed
        wide, alone = page.wide(name, page.small, bold=True), len(drawn[name]) == 1
        around: list[tuple[float, float, Spots]] = [(at, high, BESIDE if alone else BEHIND)]
        if chart.beside:
            around += [(*spot, FARTHER if alone else BESIDE[:4]) for spot in drawn[name][::-1]]
        places = [(a + dx - wide * back, b + dy) for a, b, way in around for dx, dy, back in way]
        least, best = math.inf, places[0]
        for spot in places:
            level = y.stop - 12 < spot[1] - page.small and spot[1] < y.start + 5
            inside = x.start < spot[0] and spot[0] + wide <= x.stop and level
            if least and inside and (held := _held(taken, spot, wide, page.small)) < least:
                least, best = held, spot
        at_edge = least and (not chart.beside or at > x.stop - 1 or least == math.inf)
        if not alone and (at_edge or not direct):
            waiting.append((high, name))
            continue
        chosen[name] = best
        taken += _filled(*best, wide, LETTERS if chart.beside else (-4,))
    if direct:
        edge = _apart(waiting, page.small + 4, y.start)
        chosen |= {name: (x.stop + 9, high + 4) for name, high in edge}
    for name, (at, high) in chosen.items():
        colour = worded(chart.look(name)[0])
        page.text(at, high, name, size=page.small, bold=True, colour=colour)


def _along(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on a line, a few units from each other."""
    spots = list(curve)
    for (a, b), (c, d) in pairwise(curve):
        steps = math.ceil(math.hypot(c - a, d - b) / 9)
        spots += [(a + (c - a) * k / steps, b + (d - b) * k / steps) for k in range(1, steps)]
    return spots


def _filled(
    at: float, high: float, wide: float, rows: Sequence[float] = LETTERS
) -> list[tuple[float, float]]:
    """Places that words cover, in rows above the line they stand on."""
    return [p for up in rows for p in _along([(at, high + up), (at + wide, high + up)])]


def _held(taken: Points, words: tuple[float, float], wide: float, size: float) -> int:
    """How many places words would cover."""
    at, high = words
    left, right, top, bottom = at - 3, at + wide + 3, high - size, high + 4
    return sum(1 for a, b in taken if left < a < right and top < b < bottom)


def _apart(ends: list[tuple[float, str]], step: float, lowest: float) -> list[tuple[str, float]]:
    """Names at heights that are a step apart, none below the lowest."""
    highs: list[float] = []
    for high, _ in sorted(ends):
        highs.append(max(high, highs[-1] + step) if highs else high)
    for back in range(len(highs) - 1, -1, -1):  # push up what would leave the frame
        highs[back] = min(highs[back], lowest)
        lowest = highs[back] - step
    return [(name, high) for (_, name), high in zip(sorted(ends), highs, strict=True)]


def _legend(page: Sheet, chart: Curves, names: Sequence[str], y: float) -> float:
    """The curves' names above them, each beside its marker; where the next thing may begin."""
    at = 0.0
    for name in names:
        colour, dash, marker = chart.look(name)
        wide = 32 + page.wide(name, page.small)
        if at and at + wide > page.width:
            at, y = 0.0, y + 20
        page.line(f"M{place(at + 1, y + 8)}h24", colour=colour, width=2.5, dash=dash)
        page.mark(at + 13, y + 8, marker, colour)
        page.text(at + 32, y + 12, name, size=page.small)
        at += wide + 16
    return y + 24


def _band(page: Sheet, chart: Curves, x: Axis, y: Axis) -> None:
    """A pale stripe over a part of the level axis, its name at its foot."""
    if not chart.band:
        return
    low, high = map(x.place, chart.band)
    page.area(outline(low, y.stop, high - low, y.start - y.stop), ("#888888", ""), opacity=0.22)
    half = page.wide(chart.band_label, page.small) / 2
    at = min(max((low + high) / 2, x.start + half + 2), x.stop - half - 2)
    page.text(at, y.start - 7, chart.band_label, anchor="middle", size=page.small, quiet=True)


def _mark(page: Sheet, chart: Curves, x: Axis, y: Axis) -> None:
    """A dashed line from the foot to the top, its name beside it where there is more room."""
    if chart.mark is None:
        return
    at = x.place(chart.mark)
    page.line(f"M{place(at, y.start)}V{number(y.stop)}", opacity=0.8, width=1.2, dash="5 4")
    for at, high, words, anchor in _mark_words(page, chart, x, y):
        page.text(at, high, words, anchor=anchor, size=page.small)


def _mark_words(
    page: Sheet, chart: Curves, x: Axis, y: Axis
) -> list[tuple[float, float, str, str]]:
    """The lines of a mark's name: where, how high, what, and from which side."""
    if chart.mark is None:
        return []
    at = x.place(chart.mark)
    room, anchor = max((x.stop - at, "start"), (at - x.start, "end"))
    at += 8 if anchor == "start" else -8
    told = letters.lines(chart.mark_label, room - 8, page.small)
    return [(at, y.stop + 14 + 16 * i, words, anchor) for i, words in enumerate(told)]


def _limit(page: Sheet, chart: Curves, x: Axis, y: Axis) -> None:
    high = y.place(chart.limit or 0)
    if chart.limit_quiet:
        page.line(f"M{place(x.start, high)}H{number(x.stop)}", opacity=0.8, width=1.2)
        return
    page.limit(f"M{place(x.start, high)}H{number(x.stop)}")
    words = f"{chart.limit_label}: {chart.show_y(chart.limit or 0)}"
    both = page.wide(words, page.small, bold=True) + page.wide(chart.y_title, page.small)
    beneath = high - y.stop < 20 and both > x.stop - 10  # the axis' title stands above
    high += page.small if beneath else -6
    page.text(x.stop, high, words, anchor="end", size=page.small, bold=True)
