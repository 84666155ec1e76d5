"""The memory of a step over time, as stacked areas: one column an event, one colour a kind."""

from collections.abc import Mapping, Sequence

from mathlib import units
from mathlib.show import svg
from mathlib.show.tables import Shown

LEFT, TOP, BOTTOM = 62.0, 44.0, 262.0
SHORT = {"forward": "fwd", "backward": "bwd"}


def memory_line(
    rows: Sequence[Mapping[str, int]],
    marks: Sequence[tuple[int, str]],
    *,
    title: str,
    limit: float | None = None,
) -> Shown:
    """Bytes alive after every allocation and release; `marks` are (event at which a phase ended,
    its name).
    """
    kinds = [kind for kind in rows[0] if any(row[kind] for row in rows)]
    totals = [sum(row.values()) for row in rows]
    top = max([*totals, limit or 0])
    x = (svg.WIDTH - LEFT - 4) / len(rows)
    scale = (BOTTOM - TOP) / top
    styles, base, out = svg._styles(kinds), [0.0] * len(rows), []
    for kind in kinds:
        upper = [low + row[kind] for low, row in zip(base, rows, strict=True)]
        out.append(_area(base, upper, x, scale, styles[kind]))
        base = upper
    for tick in svg.ticks(0, top):
        out.append(
            svg.text(
                LEFT - 5,
                BOTTOM - tick * scale + 4,
                units.show(tick, "byte", digits=3),
                anchor="end",
                size=svg.SMALL,
            )
        )
    start = 0
    for number, (end, name) in enumerate(marks):
        out.append(
            f'<path d="M{LEFT + end * x:.1f} {TOP}V{BOTTOM}" stroke="currentColor" '
            'stroke-opacity=".6" '
            'stroke-dasharray="3 3"/>'
        )
        word = name if (end - start) * x > 46 else SHORT.get(name, name)
        if (end - start) * x > 16:  # a phase too narrow for its name is told by its neighbours
            y = BOTTOM + 14 + 14 * (number % 2)
            out.append(
                svg.text(LEFT + (start + end) / 2 * x, y, word, anchor="middle", size=svg.SMALL)
            )
        start = end
    if limit is not None:
        high = BOTTOM - limit * scale
        out.append(
            f'<path d="M{LEFT} {high:.1f}H{svg.WIDTH}" stroke="{svg.WARNING}" stroke-width="2" '
            'stroke-dasharray="6 3"/>'
        )
    axis = "allocations and releases, in order"
    out.append(svg.text((LEFT + svg.WIDTH) / 2, BOTTOM + 46, axis, anchor="middle", size=svg.SMALL))
    legend, deep = svg.legend([(kind, styles[kind]) for kind in kinds], BOTTOM + 58)
    peak = max(range(len(rows)), key=totals.__getitem__)
    phase = next(name for end, name in marks if peak < end)
    said = f"Peak {units.show(totals[peak], 'byte')} during {phase}: " + ", ".join(
        f"{kind} {units.show(rows[peak][kind], 'byte')}" for kind in kinds
    )
    drawn = svg.drawing(
        BOTTOM + 60 + deep,
        title,
        said + ".",
        svg.text(0, 16, "bytes alive") + "".join(out) + legend,
    )
    return Shown(f"<figure>{drawn}</figure>", f"{title}. {said}")


def _area(
    lower: Sequence[float], upper: Sequence[float], x: float, scale: float, style: tuple[str, str]
) -> str:
    """A band between two step lines; steps that do not move the edge by a tenth of a unit are left
    out.
    """

    def edge(values: Sequence[float], backwards: bool) -> list[str]:
        points, last = [], None
        for place, value in enumerate(values):
            y = f"{BOTTOM - value * scale:.1f}"
            if y != last:
                points += [f"{LEFT + place * x:.1f} {last}"] * (last is not None) + [
                    f"{LEFT + place * x:.1f} {y}"
                ]
            last = y
        points.append(f"{LEFT + len(values) * x:.1f} {last}")
        return points[::-1] if backwards else points

    path = "M" + "L".join(edge(upper, False) + edge(lower, True)) + "Z"
    colour, hatch = style
    return f'<path d="{path}" fill="{colour}"/>' + (
        f'<path d="{path}" fill="url(#ID{ord(hatch)})"/>' if hatch else ""
    )
