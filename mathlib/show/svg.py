"""Charts as SVG text, from the standard library alone: CPython and the browser write the same
bytes.

A chart is WIDTH units wide and its text TEXT units high, so that it can be read on a phone.
Lengths are printed with one decimal. A role (weights, idle, ...) has one colour and one hatch
everywhere.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from textwrap import wrap

WIDTH, TEXT, BAR = 400, 14, 22
SMALL = 12
CHARACTER = 8.3  # units a character takes at most, on average, in the fonts that browsers choose
# role: (colour, hatch); every hatch is a different drawing, for print and for eyes that mix colours
# up
ROLES = {
    "weights": ("#4477aa", ""),
    "gradients": ("#ee6677", "/"),
    "optimizer": ("#228833", "\\"),
    "master weights": ("#223f66", "|"),
    "main gradients": ("#aa3344", "-"),
    "first moment": ("#228833", "\\"),
    "second moment": ("#77b36a", "x"),
    "scales": ("#888888", "|"),
    "activations": ("#ccbb44", "."),
    "temporary": ("#aa3377", "x"),
    "logits": ("#997700", "x"),
    "cache": ("#66ccee", "-"),
    "attention": ("#66ccee", "|"),
    "attention scores": ("#66ccee", "x"),
    "attention values": ("#66ccee", "."),
    "attention core": ("#66ccee", "x"),
    "mlp": ("#bb7744", "/"),
    "rule": ("#888888", "-"),
    "vocabulary": ("#aa3377", "."),
    "embedding": ("#997700", "-"),
    "forward": ("#4477aa", ""),
    "backward": ("#228833", "/"),
    "recompute": ("#ccbb44", "x"),
    "update": ("#997700", "|"),
    "compute": ("#4477aa", ""),
    "communication": ("#aa3377", "\\"),
    "idle": ("#bbbbbb", "."),
    "predicted": ("#4477aa", ""),
    "measured": ("#ee6677", "/"),
    "other": ("#888888", "|"),
}
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
HATCHES = {
    "/": "M0 8L8 0M-2 2L2 -2M6 10L10 6",
    "\\": "M0 0L8 8M-2 6L2 10M6 -2L10 2",
    "x": "M0 0L8 8M0 8L8 0",
    "-": "M0 4H8",
    "|": "M4 0V8",
    ".": "M2 2h1.6v1.6h-1.6zM6 6h1.6v1.6h-1.6z",
}
WARNING = "#d14334"  # limits and crosses; 3:1 against white and against the dark page
Row = tuple[str, Mapping[str, float]]


def style_of(name: str, position: int = 0) -> tuple[str, str]:
    """(colour, hatch) of a part: by the role its name contains, else a spare one by position."""
    found = [role for role in ROLES if role in name.lower()]
    return ROLES[max(found, key=len)] if found else SPARE[position % len(SPARE)]


def _styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """One style a name; two names of the same role are told apart by a spare."""
    styles: dict[str, tuple[str, str]] = {}
    for position, name in enumerate(dict.fromkeys(names)):
        style = style_of(name, position)
        free = [s for s in SPARE if s not in styles.values()]
        styles[name] = free[0] if style in styles.values() and free else style
    return styles


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


def box(
    x: float, y: float, width: float, height: float, style: tuple[str, str], hint: str = ""
) -> str:
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


def legend(entries: Sequence[tuple[str, tuple[str, str]]], y: float) -> tuple[str, float]:
    """Swatches with names, as many a line as fit; and the height they take."""
    out, x, top = [], 0.0, y
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


def bars(
    rows: Sequence[Row],
    *,
    title: str,
    show: Callable[[float], str],
    limit: float | None = None,
    limit_label: str = "limit",
) -> str:
    """Horizontal stacked bars, a line at the limit, and a cross on every bar that passes it."""
    styles = _styles(name for _, parts in rows for name in parts)
    totals = [sum(parts.values()) for _, parts in rows]
    scale = (WIDTH - 10) / (max([*totals, limit or 0]) or 1)
    y, out, said = 4.0, [], []
    if limit is not None:
        edge, words = limit * scale + 1, f"{limit_label}: {show(limit)}"
        out.append(
            text(edge, 15, words, anchor="end" if edge > WIDTH / 2 else "start", weight="bold")
        )
        y = 22.0
    for (label, parts), total in zip(rows, totals, strict=True):
        over = limit is not None and total > limit
        heading, high = _heading(label, show(total), y)
        out.append(heading)
        x, y = 1.0, y + high
        for name, value in parts.items():
            out.append(
                box(x, y, value * scale, BAR, styles[name], f"{label}, {name}: {show(value)}")
            )
            x += value * scale
        if limit is not None:
            out.append(limit_line(f"M{number(edge)} {number(y - 4)}V{number(y + BAR + 4)}"))
        out.append(_cross(x - 13, y + BAR / 2) if over else "")
        inside = ", ".join(f"{name} {show(value)}" for name, value in parts.items())
        said.append(f"{label}: {show(total)}{', over the limit' if over else ''} ({inside})")
        y += BAR + 10
    said += [words] if limit is not None else []
    swatches, high = legend(list(styles.items()), y + 2)
    return drawing(y + 4 + high, title, ". ".join(said) + ".", "".join(out) + swatches)


def limit_line(path: str) -> str:
    return f'<path d="{path}" stroke="{WARNING}" stroke-width="2" stroke-dasharray="6 3"/>'


def grouped(rows: Sequence[Row], *, title: str, show: Callable[[float], str]) -> str:
    """Bars side by side, one for each name in a group, on one scale."""
    styles = _styles(name for _, parts in rows for name in parts)
    scale = (WIDTH - 110) / (max((v for _, parts in rows for v in parts.values()), default=0) or 1)
    y, out, said = 4.0, [], []
    for label, parts in rows:
        out.append(text(0, y + 13, label))
        y += 19
        for name, value in parts.items():
            out.append(
                box(1, y, value * scale, 16, styles[name], f"{label}, {name}: {show(value)}")
            )
            out.append(text(value * scale + 8, y + 13, show(value)))
            y += 19
        said.append(
            f"{label}: " + ", ".join(f"{name} {show(value)}" for name, value in parts.items())
        )
        y += 8
    swatches, high = legend(list(styles.items()), y + 2)
    return drawing(y + 4 + high, title, ". ".join(said) + ".", "".join(out) + swatches)


def timeline(
    rows: Sequence[tuple[str, Sequence[tuple[str, float, float, str]]]],
    *,
    title: str,
    show: Callable[[float], str],
    axis_title: str,
) -> str:
    """What happens when: a line for each rank, a box for each (role, start, end, what)."""
    left = 12 + CHARACTER * max(len(label) for label, _ in rows)
    end = max((b for _, events in rows for _, _, b, _ in events), default=0) or 1
    scale = (WIDTH - left - 4) / end
    styles = _styles(role for _, events in rows for role, *_ in events)
    y, out, said = 4.0, [], []
    for label, events in rows:
        out.append(text(0, y + 16, label))
        busy: dict[str, float] = {}
        for role, a, b, what in events:
            out.append(
                box(
                    left + a * scale,
                    y,
                    (b - a) * scale,
                    BAR,
                    styles[role],
                    f"{label}, {what}: {show(a)} to {show(b)}",
                )
            )
            busy[role] = busy.get(role, 0) + b - a
        said.append(f"{label}: " + ", ".join(f"{role} {show(time)}" for role, time in busy.items()))
        y += BAR + 5
    for tick in ticks(0, end, 4):
        x = left + tick * scale
        anchor = (
            "start" if not tick else "end" if x > WIDTH - 25 else "middle"
        )  # words stay inside the picture
        out.append(f'<path d="M{number(x)} {number(y)}v5" stroke="currentColor"/>')
        out.append(text(x, y + 19, show(tick), anchor=anchor, size=SMALL))
    out.append(text(left + (WIDTH - left) / 2, y + 38, axis_title, anchor="middle"))
    swatches, high = legend(list(styles.items()), y + 48)
    return drawing(y + 48 + high, title, ". ".join(said) + ".", "".join(out) + swatches)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from low to high, steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(wanted, 1) or 1
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]
