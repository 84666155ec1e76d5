"""Pictures of the library's own results."""

from functools import partial
from html import escape

from mathlib import units
from mathlib.parts import Parts
from mathlib.show import says, svg
from mathlib.show.figures import both, figure_html
from mathlib.show.tables import Shown


def parts_bar(parts: Parts, *, caption: str, name: str = "") -> Shown:
    """A sum as a figure of a chapter, with the sentence it proves."""
    return Shown(parts_picture(parts, caption, name), str(parts))


def parts_picture(parts: Parts, caption: str = "", name: str = "") -> str:
    """A sum as one stacked bar, and beneath it every part with its amount and share, parts of parts
    indented.
    """

    def show(value: float) -> str:
        return says.typeset(units.show(value, parts.kind, parts.binary, says.DIGITS))

    row = ("total", {name: parts.amount(name) for name in parts})
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
