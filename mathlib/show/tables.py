"""Small tables and pictures as the last line of a cell."""

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from mathlib import units
from mathlib.checks import InputError
from mathlib.show import plot, svg


class Shown:
    """Ready HTML, with the same content in words beside it."""

    def __init__(self, html: str, words: str):
        self._html, self._words = html, words

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._words


def _cell(value: Any) -> str:
    return (
        f"{value:,.3f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> Shown:
    """A table: the first column names the row; numbers get three decimals, anything else is printed
    as it is.
    """
    for row in rows:
        if len(row) != len(head):
            raise InputError(
                f"row = {list(row)!r}: expected {len(head)} cells, one for each of {list(head)}"
            )
    cells = [[_cell(value) for value in row] for row in rows]
    top = "".join(f'<th scope="col">{escape(word)}</th>' for word in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(c)}</td>" for c in rest)
        + "</tr>"
        for first, *rest in cells
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    wide = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    words = "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, wide, strict=True)).rstrip()
        for line in [list(head), *cells]
    )
    return Shown(
        f'<table class="mlx-table">{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody>'
        "</table>",
        f"{caption}\n{words}" if caption else words,
    )


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    **axes: Any,
) -> Shown:
    """Curves over plain numbers; `log_x`, `log_y`, `limit`, `limit_label` as in plot.lines."""
    show = {"show_x": lambda v: f"{v:,g}", "show_y": lambda v: f"{v:,g}"} | axes
    drawn = plot.lines(series, title=title, x_title=x_title, y_title=y_title, **show)
    return Shown(
        f"<figure>{drawn}</figure>", f"{title}: {y_title} against {x_title}, " + ", ".join(series)
    )


def byte_bars(
    rows: Mapping[str, Mapping[str, float]], *, title: str, limit: float | None = None
) -> Shown:
    """Stacked bars of bytes by part; a cross marks each bar beyond the limit."""

    def show(value: float) -> str:
        return units.show(value, "byte", digits=3)

    drawn = svg.bars(list(rows.items()), title=title, show=show, limit=limit)
    return Shown(
        f"<figure>{drawn}</figure>",
        f"{title}: " + ", ".join(f"{n} {show(sum(p.values()))}" for n, p in rows.items()),
    )


def source(*functions: Callable[..., Any]) -> Shown:
    """The library's own code, as it stands; methods without their class's indentation."""
    code = "\n\n".join(
        textwrap.dedent(inspect.getsource(function)).rstrip() for function in functions
    )
    return Shown(f'<pre tabindex="0"><code>{escape(code)}</code></pre>', code)
