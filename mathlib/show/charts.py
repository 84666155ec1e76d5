"""Charts of plain numbers, as the last line of a cell."""

from collections.abc import Mapping, Sequence
from typing import Any

from mathlib.show import plot, says, svg
from mathlib.show.tables import Shown


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    caption: str = "",
    name: str = "",
    **axes: Any,
) -> Shown:
    """Curves over plain numbers; `log_x`, `log_y`, `limit`, `band`, `mark` as in plot.Curves."""
    given = {"title": title, "x_title": x_title, "y_title": y_title}
    show = {"show_x": says.short, "show_y": says.short} | axes
    drawn = plot.lines(series, caption=caption, name=name, **given, **show)
    return Shown(drawn, f"{title}: {y_title} against {x_title}, " + ", ".join(series))


def byte_bars(
    rows: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    limit: float | None = None,
    limit_label: str = "limit",
    caption: str = "",
    name: str = "",
) -> Shown:
    """Stacked bars of bytes by part; a cross marks each bar beyond the limit."""
    told: dict[str, Any] = {"title": title, "caption": caption, "name": name}
    told |= {"limit": limit, "limit_label": limit_label}
    return _bars(rows, says.size, **told)


def time_bars(
    rows: Mapping[str, Mapping[str, float]], *, title: str, caption: str = "", name: str = ""
) -> Shown:
    """Stacked bars of seconds by part."""
    return _bars(rows, says.time, title=title, caption=caption, name=name)


def _bars(rows: Mapping[str, Mapping[str, float]], show: plot.Show, **told: Any) -> Shown:
    drawn = svg.bars(list(rows.items()), show=show, **told)
    said = ", ".join(f"{row} {show(sum(parts.values()))}" for row, parts in rows.items())
    return Shown(drawn, f"{told['title']}: {said}")
