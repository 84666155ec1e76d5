"""Bars and timelines as SVG text, each for two widths.

The sheet they are drawn on is mathlib.show.kit.sheet; colours are those of mathlib.show.roles.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mathlib.show.figures import both, figure_html
from mathlib.show.kit import letters
from mathlib.show.kit.sheet import Sheet, number
from mathlib.show.roles import Look, looks

BAR = 24
SLIM = 4.5  # of a box that no pointer finds: it has no tooltip, and all of a colour are one path
Row = tuple[str, Mapping[str, float]]  # a bar: its label, its parts
Line = tuple[str, Sequence[tuple[str, float, float, str]]]  # label, (role, start, end, what)
Show = Callable[[float], str]


def bars(
    rows: Sequence[Row],
    *,
    title: str,
    show: Show,
    limit: float | None = None,
    limit_label: str = "limit",
    caption: str = "",
    name: str = "",
) -> str:
    """Horizontal stacked bars, a line at the limit, and a cross on every bar that passes it."""
    draw = partial(stacked, rows=rows, title=title, show=show, limit=limit, limit_label=limit_label)
    return figure_html(both(draw), caption, name)


def stacked(
    width: float,
    rows: Sequence[Row],
    title: str,
    show: Show,
    limit: float | None,
    limit_label: str,
) -> str:
    page = Sheet(width)
    styles = looks(part for _, parts in rows for part in parts)
    totals = [sum(parts.values()) for _, parts in rows]
    scale = (width - 3) / (max([*totals, limit or 0]) or 1)
    y = page.title(title)
    if len(styles) > 1:
        y = page.legend(list(styles.items()), y) + 2
    said = [_said(*row, show, limit) for row in rows]
    if limit is not None:
        said.append(f"{limit_label}: {show(limit)}")
        y = _limit_label(page, said[-1], limit * scale + 1, y)
    for (label, parts), total in zip(rows, totals, strict=True):
        y = _heading(page, label, show(total), y)
        _segments(page, label, parts, y, scale, styles, show)
        if limit is not None:
            x = number(limit * scale + 1)
            page.limit(f"M{x} {number(y - 3)}V{number(y + BAR + 3)}")
            if total > limit:
                page.cross(total * scale - 12, y + BAR / 2)
        y += BAR + 12
    return page.svg(title, ". ".join(said) + ".", y - 8)


def _limit_label(page: Sheet, words: str, edge: float, y: float) -> float:
    """Above the bars, on that side of its line that has room."""
    anchor = "end" if edge > page.width / 2 else "start"
    page.text(edge, y + 13, words, anchor=anchor, size=page.small, bold=True)
    return y + 20


def _heading(page: Sheet, label: str, total: str, y: float) -> float:
    """A bar's name, in as many lines as it needs beside its total; where the bar begins."""
    room = page.width - 14 - page.wide(total, bold=True)
    for line in letters.lines(label, room, page.size):
        y += page.size + 4
        page.text(0, y - 3, line)
    page.text(page.width - 2, y - 3, total, anchor="end", bold=True)
    return y + 3


def _segments(
    page: Sheet,
    label: str,
    parts: Mapping[str, float],
    y: float,
    scale: float,
    styles: Mapping[str, Look],
    show: Show,
) -> None:
    """One stacked bar: its parts from left to right, as long as their numbers."""
    x = 1.0
    for name, value in parts.items():
        hint = f"{label}, {name}: {show(value)}"
        page.rect(x, y, value * scale, BAR, styles[name], hint)
        x += value * scale


def _said(label: str, parts: Mapping[str, float], show: Show, limit: float | None) -> str:
    """One bar for those who do not see it."""
    total = sum(parts.values())
    inside = ", ".join(f"{name} {show(value)}" for name, value in parts.items())
    more = ", over the limit" if limit is not None and total > limit else ""
    return f"{label}: {show(total)}{more} ({inside})"


def timeline(
    lines: Sequence[Line],
    *,
    title: str,
    show: Show,
    axis_title: str,
    caption: str = "",
    name: str = "",
) -> str:
    """What happens when: a line for each rank, a box for each (role, start, end, what)."""
    draw = partial(_timeline, lines=lines, title=title, show=show, axis_title=axis_title)
    return figure_html(both(draw), caption, name)


def _timeline(width: float, lines: Sequence[Line], title: str, show: Show, axis_title: str) -> str:
    page = Sheet(width)
    styles = looks(role for _, events in lines for role, *_ in events)
    y = page.legend(list(styles.items()), page.title(title)) + 4
    y = lanes(page, lines, styles, y, show, axis_title)
    said = ". ".join(busy(line, show) for line in lines)
    return page.svg(title, said + ".", y)


def lanes(
    page: Sheet,
    lines: Sequence[Line],
    styles: Mapping[str, Look],
    y: float,
    show: Show,
    axis_title: str,
) -> float:
    """The lines of a timeline and their axis; where they end."""
    left = 12 + max(page.wide(label) for label, _ in lines)
    end = max((b for _, events in lines for _, _, b, _ in events), default=0) or 1
    scale = (page.width - left - 4) / end
    for label, events in lines:
        page.text(0, y + 17, label)
        for role, a, b, what in events:
            x, wide = left + a * scale, (b - a) * scale
            if wide < SLIM:
                page.cell(x, y, wide, BAR, styles[role][0])
                continue
            hint = f"{label}, {what}: {show(a)} to {show(b)}"
            page.rect(x, y, wide, BAR, styles[role], hint)
        y += BAR + 5
    return time_axis(page, y, left, end, show, axis_title)


def time_axis(page: Sheet, y: float, left: float, end: float, show: Show, title: str) -> float:
    """Ticks with their times beneath the lines; words stay inside the picture."""
    scale = (page.width - left - 4) / end
    page.line(f"M{number(left)} {number(y)}H{number(page.width - 4)}", opacity=0.5)
    named = [(tick, show(tick)) for tick in ticks(0, end, 4 if page.narrow else 7)]
    for tick, words in named:
        x = left + tick * scale
        if x + page.wide(words, page.small) / 2 > page.width - 2:
            anchor = "end"
        else:
            anchor = "middle" if tick else "start"
        page.line(f"M{number(x)} {number(y)}v5", opacity=0.7)
        page.text(x, y + 19, words, anchor=anchor, size=page.small, quiet=True)
    page.text((left + page.width) / 2, y + 37, title, anchor="middle", size=page.small, quiet=True)
    return y + 44


def busy(line: Line, show: Show) -> str:
    """One line for those who do not see it: how long it does what."""
    label, events = line
    busy: dict[str, float] = {}
    for role, a, b, _ in events:
        busy[role] = busy.get(role, 0) + b - a
    return f"{label}: " + ", ".join(f"{role} {show(time)}" for role, time in busy.items())


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from low to high, steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(wanted, 1) or 1
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]
