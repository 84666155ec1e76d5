"""Charts of plain numbers, as the last line of a cell."""

from collections.abc import Mapping, Sequence
from typing import Any

from mathlib.show import plot, says, svg
from mathlib.show.figures import Chart


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    caption: str = "",
    name: str = "",
    **axes: Any,
) -> Chart:
    """Curves over plain numbers; `log_x`, `log_y`, `limit`, `band`, `mark` as in plot.Curves."""
    given = {"title": title, "x_title": x_title, "y_title": y_title}
    told: dict[str, Any] = {"show_x": says.short, "show_y": says.short} | given | axes
    words = f"{title}: {y_title} against {x_title}, " + ", ".join(series)
    html = plot.lines(series, caption=caption, name=name, **told)
    return Chart(html, words, title, "curves", plot.Curves(series, **told))


def byte_bars(
    rows: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    limit: float | None = None,
    limit_label: str = "limit",
    caption: str = "",
    name: str = "",
) -> Chart:
    """Stacked bars of bytes by part; a cross marks each bar beyond the limit."""
    told: dict[str, Any] = {"title": title, "caption": caption, "name": name}
    told |= {"limit": limit, "limit_label": limit_label}
    return bars(rows, says.size, "bytes", **told)


def bars(
    rows: Mapping[str, Mapping[str, float]],
    show: plot.Show,
    unit: str,
    *,
    title: str,
    limit: float | None = None,
    limit_label: str = "limit",
    caption: str = "",
    name: str = "",
    words: str = "",
) -> Chart:
    """Stacked bars of any unit; `words` are said of them instead of their sums."""
    lines, bound = list(rows.items()), {"limit": limit, "limit_label": limit_label}
    told: dict[str, Any] = {"title": title, "caption": caption, "name": name} | bound
    html = svg.bars(lines, show=show, **told)
    said = ", ".join(f"{row} {show(sum(parts.values()))}" for row, parts in lines)
    return Chart(
        html, words or f"{title}: {said}", title, "bars", lines, show, unit, *bound.values()
    )
