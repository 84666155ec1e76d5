"""Pictures of the library's own results."""

from html import escape

from mathlib import units
from mathlib.parts import Parts
from mathlib.show import svg


def parts_picture(parts: Parts) -> str:
    """A sum as one stacked bar, and beneath it every part with its amount and share, parts of parts
    indented.
    """

    def show(value: float) -> str:
        return units.show(value, parts.kind, parts.binary)

    bar = svg.bars(
        [("total", {name: parts.amount(name) for name in parts})], title=parts.title, show=show
    )
    whole = parts.total
    rows = "".join(
        f'<tr><th scope="row" style="padding-left:{depth * 1.2 + 0.3:.1f}em">{escape(name)}</th>'
        f"<td>{escape(show(value))}</td><td>{f'{value / whole:.1%}' if whole else ''}</td></tr>"
        for depth, name, value in parts.rows()
    )
    return (
        f'<figure class="mlx-parts"><figcaption>{escape(parts.title)}</figcaption>{bar}'
        f"<table><tbody>{rows}</tbody></table></figure>"
    )
