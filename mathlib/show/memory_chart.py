"""The memory of a step over time, as stacked areas: one column an event, one colour a kind."""

from collections.abc import Mapping, Sequence

from mathlib import units
from mathlib.show import says, svg
from mathlib.show.roles import Look, looks
from mathlib.show.tables import Shown

LEFT, TOP, BOTTOM = 62.0, 44.0, 262.0
SHORT = {"forward": "fwd", "backward": "bwd"}
AXIS = "allocations and releases, in order"
Row = Mapping[str, int]  # bytes alive by kind
Mark = tuple[int, str]  # event at which a phase ended, its name


def memory_line(
    rows: Sequence[Row], marks: Sequence[Mark], *, title: str, limit: float | None = None
) -> Shown:
    """Bytes alive after every allocation and release; `marks` are (event at which a phase ended,
    its name).
    """
    kinds = [kind for kind in rows[0] if any(row[kind] for row in rows)]
    top = max([*(sum(row.values()) for row in rows), limit or 0])
    x = (svg.WIDTH - LEFT - 4) / len(rows)
    scale = (BOTTOM - TOP) / top
    styles = looks(kinds)
    out = [svg.text(0, 16, "bytes alive"), _areas(rows, styles, x, scale)]
    out += [_levels(top, scale), _phases(marks, x)]
    if limit is not None:
        out.append(svg.limit_line(f"M{LEFT} {BOTTOM - limit * scale:.1f}H{svg.WIDTH}"))
    middle = (svg.WIDTH + LEFT) / 2
    out.append(svg.text(middle, BOTTOM + 46, AXIS, anchor="middle", size=svg.SMALL))
    legend, deep = svg.legend(list(styles.items()), BOTTOM + 58)
    said = _said(rows, marks, kinds)
    drawn = svg.drawing(BOTTOM + 60 + deep, title, said + ".", "".join(out) + legend)
    return Shown(f"<figure>{drawn}</figure>", f"{title}. {said}")


def _said(rows: Sequence[Row], marks: Sequence[Mark], kinds: Sequence[str]) -> str:
    """The peak in words: how much, when, and what it is made of."""
    peak = max(range(len(rows)), key=lambda event: sum(rows[event].values()))
    phase = next(name for end, name in marks if peak < end)
    inside = ", ".join(f"{kind} {units.show(rows[peak][kind], 'byte')}" for kind in kinds)
    return f"Peak {units.show(sum(rows[peak].values()), 'byte')} during {phase}: {inside}"


def _levels(top: float, scale: float) -> str:
    """Bytes on the upright axis."""
    return "".join(
        svg.text(LEFT - 5, BOTTOM - tick * scale + 4, says.size(tick), anchor="end", size=svg.SMALL)
        for tick in svg.ticks(0, top)
    )


def _phases(marks: Sequence[Mark], x: float) -> str:
    """A line where each phase ends, and its name beneath, in turn on two lines."""
    out = []
    start = 0
    for number, (end, name) in enumerate(marks):
        out.append(
            f'<path d="M{LEFT + end * x:.1f} {TOP}V{BOTTOM}" stroke="currentColor" '
            'stroke-opacity=".6" stroke-dasharray="3 3"/>'
        )
        wide = (end - start) * x
        word = name if wide > 46 else SHORT.get(name, name)
        if wide > 16:  # a phase too narrow for its name is told by its neighbours
            middle = LEFT + (start + end) / 2 * x
            y = BOTTOM + 14 + 14 * (number % 2)
            out.append(svg.text(middle, y, word, anchor="middle", size=svg.SMALL))
        start = end
    return "".join(out)


def _areas(rows: Sequence[Row], styles: Mapping[str, Look], x: float, scale: float) -> str:
    """One band a kind, each on top of those before it."""
    out = []
    base = [0.0] * len(rows)
    for kind, style in styles.items():
        upper = [low + row[kind] for low, row in zip(base, rows, strict=True)]
        out.append(_area(base, upper, x, scale, style))
        base = upper
    return "".join(out)


def _area(
    lower: Sequence[float], upper: Sequence[float], x: float, scale: float, style: Look
) -> str:
    """A band between two step lines."""
    points = _steps(upper, x, scale) + _steps(lower, x, scale)[::-1]
    path = "M" + "L".join(points) + "Z"
    colour, hatch = style
    band = f'<path d="{path}" fill="{colour}"/>'
    if hatch:
        band += f'<path d="{path}" fill="url(#ID{ord(hatch)})"/>'
    return band


def _steps(values: Sequence[float], x: float, scale: float) -> list[str]:
    """The corners of a line that jumps at every event; jumps of less than a tenth of a unit are
    left out.
    """
    points: list[str] = []
    last = ""
    for place, value in enumerate(values):
        y = f"{BOTTOM - value * scale:.1f}"
        if y == last:
            continue
        if last:
            points.append(f"{LEFT + place * x:.1f} {last}")
        points.append(f"{LEFT + place * x:.1f} {y}")
        last = y
    points.append(f"{LEFT + len(values) * x:.1f} {last}")
    return points
