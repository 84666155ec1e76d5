"""Pictures of the library's own results."""

from functools import partial
from html import escape

from mathlib import units
from mathlib.parts import Parts
from mathlib.show import says, svg
from mathlib.show.figures import Chart, both, figure_html


def parts_bar(parts: Parts, *, caption: str, name: str = "") -> Chart:
    """A sum as a figure of a chapter, with the sentence it proves."""
    html, told = parts_picture(parts, caption, name), (partial(_show, parts), parts.kind)
    return Chart(html, str(parts), parts.title, "bars", [_row(parts)], *told)


def _show(parts: Parts, value: float) -> str:
    return says.typeset(units.show(value, parts.kind, parts.binary, says.DIGITS))


def _row(parts: Parts) -> svg.Row:
    return "total", {name: parts.amount(name) for name in parts}


def parts_picture(parts: Parts, caption: str = "", name: str = "") -> str:
    """A sum as one stacked bar, and beneath it every part with its amount and share, parts of parts
    indented.
    """
    show, row = partial(_show, parts), _row(parts)
    draw = partial(
        svg.stacked, rows=[row], title=parts.title, show=show, limit=None, limit_label=""
    )
    whole = parts.total
    rows = "".join(
        f'<tr><th scope="row" style="padding-left:{depth * 1.2 + 0.3:.1f}em">{escape(name)}</th>'
        f"<td>{escape(show(value))}</td><td>{f'{value / whole:.1%}' if whole else ''}</td></tr>"
        for depth, name, value in parts.rows()
    )
    inside = f"{both(draw)}<table><tbody>{rows}</tbody></table>"
    return figure_html(inside, caption, name, "mlx-figure mlx-parts")
