"""Charts as SVG text, from the standard library alone: CPython and the browser write the same
bytes.

A chart is WIDTH units wide and its text TEXT units high, so that it can be read on a phone.
Lengths are printed with one decimal. Colours and hatches are those of mathlib.show.roles.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from textwrap import wrap

from mathlib.show.roles import HATCHES, Look, looks

WIDTH, TEXT, BAR = 400, 14, 22
SMALL = 12
CHARACTER = 8.3  # units a character takes at most, on average, in the fonts that browsers choose
# Looks of what is told apart and has no role: curves, ranks.
SPARE = [
    ("#4477aa", ""),
    ("#ee6677", "/"),
    ("#228833", "\\"),
    ("#ccbb44", "."),
    ("#aa3377", "x"),
    ("#66ccee", "-"),
    ("#997700", "|"),
    ("#888888", ""),
]
WARNING = "#d14334"  # limits and crosses; 3:1 against white and against the dark page
Row = tuple[str, Mapping[str, float]]  # a bar: its label, its parts
Line = tuple[str, Sequence[tuple[str, float, float, str]]]  # label, (role, start, end, what)
Show = Callable[[float], str]


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = TEXT, weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{size}"{side}{bold}>'
        f"{escape(words)}</text>"
    )


def box(x: float, y: float, width: float, height: float, style: Look, hint: str = "") -> str:
    """A filled rectangle, its hatch above it, and what it means as a tooltip."""
    colour, hatch = style
    shape = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    title = f"<title>{escape(hint)}</title>" if hint else ""
    edge = f'<rect {shape} fill="{colour}" stroke="currentColor" stroke-width=".7">{title}</rect>'
    return edge + (
        f'<rect {shape} fill="url(#ID{ord(hatch)})" pointer-events="none"/>' if hatch else ""
    )


def _cross(x: float, y: float, reach: float = 7) -> str:
    a, b, c, d = number(x - reach), number(y - reach), number(x + reach), number(y + reach)
    return (
        f'<path d="M{a} {b}L{c} {d}M{a} {d}L{c} {b}" stroke="{WARNING}" stroke-width="3.5" '
        'stroke-linecap="round"/>'
    )


def drawing(height: float, title: str, description: str, body: str) -> str:
    """The finished chart. Its ids are a checksum of its content: equal on every machine, different
    between charts.
    """
    patterns = "".join(
        f'<pattern id="ID{ord(h)}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="{d}" stroke="#000" stroke-opacity=".55" fill="none"/></pattern>'
        for h, d in HATCHES.items()
        if f"url(#ID{ord(h)})" in body
    )
    defs = f"<defs>{patterns}</defs>" if patterns else ""
    words = f'<title id="IDt">{escape(title)}</title><desc id="IDd">{escape(description)}</desc>'
    whole = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="mlx-chart" role="img" '
        'aria-labelledby="IDt IDd" '
        f'viewBox="0 0 {WIDTH} {number(height)}" width="100%" style="max-width:500px" '
        'fill="currentColor" '
        f'font-family="inherit">{words}{defs}{body}</svg>'
    )
    key = f"c{zlib.crc32(whole.encode()):08x}"
    return whole.replace('"ID', f'"{key}').replace(" IDd", f" {key}d").replace("(#ID", f"(#{key}")


def legend(entries: Sequence[tuple[str, Look]], y: float) -> tuple[str, float]:
    """Swatches with names, as many a line as fit; and the height they take."""
    out = []
    x, top = 0.0, y
    for name, style in entries:
        width = 24 + CHARACTER * len(name)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 22
        out.append(box(x + 1, y, 14, 14, style) + text(x + 21, y + 12, name))
        x += width + 12
    return "".join(out), y + 22 - top


def _heading(label: str, total: str, y: float) -> tuple[str, float]:
    """A bar's name, in as many lines as it needs beside its total; and the height they take."""
    room = int((WIDTH - 8 - CHARACTER * 1.1 * len(total)) / CHARACTER)
    words = wrap(label, room) or [""]
    lines = "".join(text(0, y + 13 + 17 * i, line) for i, line in enumerate(words))
    last = y + 13 + 17 * (len(words) - 1)
    return lines + text(WIDTH - 2, last, total, anchor="end", weight="bold"), 17.0 * len(words) + 2


def _limit_label(words: str, edge: float) -> str:
    """Above the bars, on that side of its line that has room."""
    anchor = "end" if edge > WIDTH / 2 else "start"
    return text(edge, 15, words, anchor=anchor, weight="bold")


def _segments(row: Row, y: float, scale: float, styles: Mapping[str, Look], show: Show) -> str:
    """One stacked bar: its parts from left to right, as long as their numbers."""
    (label, parts), x, out = row, 1.0, []
    for name, value in parts.items():
        hint = f"{label}, {name}: {show(value)}"
        out.append(box(x, y, value * scale, BAR, styles[name], hint))
        x += value * scale
    return "".join(out)


def _said(row: Row, show: Show, over: bool) -> str:
    """One bar for those who do not see it."""
    label, parts = row
    inside = ", ".join(f"{name} {show(value)}" for name, value in parts.items())
    more = ", over the limit" if over else ""
    return f"{label}: {show(sum(parts.values()))}{more} ({inside})"


def bars(
    rows: Sequence[Row],
    *,
    title: str,
    show: Show,
    limit: float | None = None,
    limit_label: str = "limit",
) -> str:
    """Horizontal stacked bars, a line at the limit, and a cross on every bar that passes it."""
    styles = looks(name for _, parts in rows for name in parts)
    totals = [sum(parts.values()) for _, parts in rows]
    scale = (WIDTH - 10) / (max([*totals, limit or 0]) or 1)
    out, said = [], []
    y = 4.0
    if limit is not None:
        edge = limit * scale + 1
        words = f"{limit_label}: {show(limit)}"
        out.append(_limit_label(words, edge))
        y = 22.0
    for row, total in zip(rows, totals, strict=True):
        heading, high = _heading(row[0], show(total), y)
        y += high
        out += [heading, _segments(row, y, scale, styles, show)]
        over = limit is not None and total > limit
        if limit is not None:
            out.append(limit_line(f"M{number(edge)} {number(y - 4)}V{number(y + BAR + 4)}"))
        if over:
            out.append(_cross(1 + total * scale - 13, y + BAR / 2))
        said.append(_said(row, show, over))
        y += BAR + 10
    if limit is not None:
        said.append(words)
    swatches, high = legend(list(styles.items()), y + 2)
    return drawing(y + 4 + high, title, ". ".join(said) + ".", "".join(out) + swatches)


def limit_line(path: str) -> str:
    return f'<path d="{path}" stroke="{WARNING}" stroke-width="2" stroke-dasharray="6 3"/>'


def _events(line: Line, y: float, left: float, scale: float, styles: Mapping[str, Look]) -> str:
    """The boxes of one line, each where and as long as its event was."""
    label, events = line
    return "".join(
        box(left + a * scale, y, (b - a) * scale, BAR, styles[role], f"{label}, {what}")
        for role, a, b, what in events
    )


def _time_axis(y: float, left: float, end: float, show: Show, title: str) -> str:
    """Ticks with their times beneath the lines; words stay inside the picture."""
    scale = (WIDTH - left - 4) / end
    out = []
    for tick in ticks(0, end, 4):
        x = left + tick * scale
        anchor = "middle" if tick else "start"
        if tick and x > WIDTH - 25:
            anchor = "end"
        out.append(f'<path d="M{number(x)} {number(y)}v5" stroke="currentColor"/>')
        out.append(text(x, y + 19, show(tick), anchor=anchor, size=SMALL))
    out.append(text(left + (WIDTH - left) / 2, y + 38, title, anchor="middle"))
    return "".join(out)


def _busy(line: Line, show: Show) -> str:
    """One line for those who do not see it: how long it does what."""
    label, events = line
    busy: dict[str, float] = {}
    for role, a, b, _ in events:
        busy[role] = busy.get(role, 0) + b - a
    return f"{label}: " + ", ".join(f"{role} {show(time)}" for role, time in busy.items())


def timeline(lines: Sequence[Line], *, title: str, show: Show, axis_title: str) -> str:
    """What happens when: a line for each rank, a box for each (role, start, end, what)."""
    left = 12 + CHARACTER * max(len(label) for label, _ in lines)
    end = max((b for _, events in lines for _, _, b, _ in events), default=0) or 1
    scale = (WIDTH - left - 4) / end
    styles = looks(role for _, events in lines for role, *_ in events)
    out = []
    y = 4.0
    for label, events in lines:
        timed = [(r, a, b, f"{what}: {show(a)} to {show(b)}") for r, a, b, what in events]
        out.append(text(0, y + 16, label))
        out.append(_events((label, timed), y, left, scale, styles))
        y += BAR + 5
    out.append(_time_axis(y, left, end, show, axis_title))
    said = ". ".join(_busy(line, show) for line in lines)
    swatches, high = legend(list(styles.items()), y + 48)
    return drawing(y + 48 + high, title, said + ".", "".join(out) + swatches)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from low to high, steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(wanted, 1) or 1
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]
