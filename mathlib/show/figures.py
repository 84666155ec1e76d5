"""A figure: one picture in two widths, and the sentence it proves.

The site shows the wide one in a column and the narrow one on a phone; without its style sheet the
narrow one stays away. A figure with a name gets its number when the book is built, and the text
refers to it by that name: {fig}`ring`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from mathlib.checks import InputError
from mathlib.show.kit.sheet import NARROW, WIDE
from mathlib.show.tables import Shown

Draw = Callable[[float], str]  # a width -> SVG that fills it
NAME = re.compile(r"[a-z][a-z0-9-]*")


class Chart(Shown):
    """A picture of data, which matplotlib can draw as well: `kind` is a function of
    mathlib.show.axes, `data` what it takes.
    """

    def __init__(self, html: str, words: str, title: str, kind: str, *data: Any):
        super().__init__(html, words)
        self._drawn = title, kind, data

    def axes(self, ax: Any = None) -> Any:
        """Draw it on these axes, or on axes of its own: `chart.axes().figure.savefig("a.pdf")`."""
        from mathlib.show import axes

        return axes.drawn(ax, *self._drawn)


def both(draw: Draw) -> str:
    """A picture for a column and for a phone."""
    if _tries:
        raise _Reached
    return draw(WIDE) + draw(NARROW)


class _Reached(Exception):
    """A picture would be drawn now."""


_tries: list[bool] = []


@contextmanager
def up_to_a_picture() -> Iterator[None]:
    """What is inside goes as far as its first picture, which takes longest, and draws none."""
    _tries.append(True)
    try:
        yield
    except _Reached:
        pass
    finally:
        _tries.pop()


def figure_html(inside: str, caption: str = "", name: str = "", kind: str = "mlx-figure") -> str:
    """The figure around a picture. A caption is a sentence; `name` is what the text refers to."""
    if name and not NAME.fullmatch(name):
        raise InputError(f"name = {name!r}: expected small letters, digits and hyphens")
    if name and not caption:
        raise InputError(f"caption = '': expected a sentence for the figure {name!r}")
    place = f' id="fig-{name}"' if name else ""
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="{kind}"{place}>{inside}{said}</figure>'


def figure(draw: Draw, *, caption: str = "", name: str = "", words: str = "") -> Shown:
    """What a cell ends with: a picture that lays itself out for the width it is given."""
    return Shown(figure_html(both(draw), caption, name), words or caption)
