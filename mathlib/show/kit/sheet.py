"""A sheet of SVG text: what is filled lies below, then lines, then words.

CPython and the browser write the same bytes: lengths have one decimal, ids are a checksum.
A sheet is WIDE units wide for a column of text and NARROW for a phone; its words are about as large
as the page's. Colours are those of mathlib.show.roles; hatches show in print and forced colours.
"""

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from html import escape

from mathlib.show.kit import letters
from mathlib.show.roles import HATCHES, Look

WIDE, NARROW = 680, 360
WARNING = "#d14334"  # limits and crosses; 3:1 against white and against the dark page
FACE = "'Source Sans 3', Arial, Helvetica, sans-serif"
EDGE = '<g stroke="currentColor" stroke-opacity=".35" stroke-width=".6">'  # of what is filled
HIDDEN = ' style="display:none"'
APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)|(?<=s)'(?= )")  # quotes of code stay straight
Point = tuple[float, float]


@lru_cache(8192)  # heights and widths of a picture are few
def number(value: float) -> str:
    """A length with one decimal, without a zero that says nothing."""
    return f"{value + 0.0:.1f}".removesuffix(".0")  # -0.0 is 0.0, whichever came first


def place(x: float, y: float) -> str:
    return f"{number(x)} {number(y)}"


def said(words: str) -> str:
    """Words as SVG text, an apostrophe as print has it."""
    return escape(APOSTROPHE.sub("’", words))


def ink(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return "#fff" if light < 0.2 else "#111"


def closed(tag: str, inside: str) -> str:
    """The end of an element, short where nothing is inside."""
    return f">{inside}</{tag}>" if inside else "/>"


def outline(x: float, y: float, width: float, height: float) -> str:
    """The path of a rectangle."""
    w, h = number(width), number(height)
    return f"M{place(x, y)}h{w}v{h}h-{w}z"


class Sheet:
    """Collects what is drawn; `svg` hands it over. `bottom` is where the lowest thing ends."""

    def __init__(self, width: float):
        self.width = width
        self.narrow = width < 500
        self.size = 12.5 if self.narrow else 14  # of words
        self.small = 12 if self.narrow else 13  # of numbers on axes, notes
        self.bottom = 0.0
        self.fills: list[str] = []
        self.cells: dict[str, list[str]] = {}  # by colour
        self.frames: dict[str, list[str]] = {}  # by line
        self.hatched: dict[str, list[str]] = {}
        self.marks: list[str] = []
        self.texts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        look: Look,
        hint: str = "",
        *,
        radius: float = 0,
        tint: bool = False,
        hatched: bool = True,
    ) -> None:
        """A filled rectangle with a quiet edge, and what it means as a tooltip. A tint is for
        words of the page's colour; its edge has the full colour.
        """
        colour, hatch = look
        end = closed("rect", f"<title>{said(hint)}</title>") if hint else "/>"
        round_ = f' rx="{number(radius)}"' if radius else ""
        paint = f'fill="{colour}"'  # the edge is that of all fills
        if tint:
            paint += f' fill-opacity=".18" stroke="{colour}" stroke-opacity="1" stroke-width="1.5"'
        left, top, wide, high = number(x), number(y), number(width), number(height)
        self.fills.append(
            f'<rect x="{left}" y="{top}" width="{wide}" height="{high}"{round_} {paint}{end}'
        )
        if hatch and hatched:
            path = f"M{left} {top}h{wide}v{high}h-{wide}z"
            self.hatched.setdefault(hatch, []).append(path)
        if y + height > self.bottom:
            self.bottom = y + height

    def cell(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle of which there are many: those of a colour are one path."""
        self.cells.setdefault(colour, []).append(outline(x, y, width, height))
        self.bottom = max(self.bottom, y + height)

    def frame(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        hint: str = "",
        heavy: bool = False,
        radius: float = 0,
        colour: str = "currentColor",
        dash: str = "",
    ) -> None:
        """An empty rectangle."""
        title = f"<title>{said(hint)}</title>" if hint else ""
        round_ = f' rx="{number(radius)}"' if radius else ""
        line = 'stroke-width="2"' if heavy else 'stroke-width=".8" stroke-opacity=".5"'
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        caught = ' pointer-events="all"' if hint else ""
        self.bottom = max(self.bottom, y + height)
        if not hint and not radius and not dash:
            style = f'stroke="{colour}" {line}'
            self.frames.setdefault(style, []).append(outline(x, y, width, height))
            return
        self.marks.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}"{round_} fill="none" stroke="{colour}" {line}{dashed}'
            f"{caught}{closed('rect', title)}"
        )
        self.bottom = max(self.bottom, y + height)

    def area(self, path: str, look: Look, opacity: float = 1, hint: str = "") -> None:
        """A filled path."""
        colour, hatch = look
        title = f"<title>{said(hint)}</title>" if hint else ""
        pale = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        end = closed("path", title)
        self.fills.append(f'<path d="{path}" fill="{colour}"{pale} stroke="none"{end}')
        if hatch:
            self.hatched.setdefault(hatch, []).append(path)

    def line(
        self,
        path: str,
        *,
        colour: str = "currentColor",
        width: float = 1,
        opacity: float = 1,
        dash: str = "",
    ) -> None:
        """A path that is not filled."""
        pale = f' stroke-opacity="{opacity:g}"' if opacity < 1 else ""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<path d="{path}" stroke="{colour}" stroke-width="{width:g}"{pale}{dashed} '
            'fill="none"/>'
        )

    def limit(self, path: str) -> None:
        """A line that must not be passed."""
        self.line(path, colour=WARNING, width=1.8, dash="6 3")

    def cross(self, x: float, y: float, reach: float = 7) -> None:
        """Over the limit."""
        a, b = place(x - reach, y - reach), place(x + reach, y + reach)
        c, d = place(x - reach, y + reach), place(x + reach, y - reach)
        self.marks.append(
            f'<path d="M{a}L{b}M{c}L{d}" stroke="{WARNING}" stroke-width="3.5" '
            'stroke-linecap="round"/>'
        )

    def mark(self, x: float, y: float, shape: str, colour: str, hint: str = "") -> None:
        """A small filled shape, drawn around a point."""
        title = f"<title>{said(hint)}</title>" if hint else ""
        self.marks.append(
            f'<path transform="translate({place(x, y)})" d="{shape}" fill="{colour}">{title}</path>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "start",
        size: float = 0,
        bold: bool = False,
        quiet: bool = False,
        colour: str = "",
    ) -> None:
        """One line of words; y is the line they stand on."""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        weight = ' font-weight="600"' if bold else ""
        paint = f' fill="{colour}"' if colour else ""
        pale = ' fill-opacity=".75"' if quiet and not colour else ""
        size = size or self.size
        self.texts.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{size:g}"'
            f"{side}{weight}{paint}{pale}>"
            f"{said(words)}</text>"
        )
        self.bottom = max(self.bottom, y + size * 0.3)

    def scattered(self, y: float, words: Sequence[tuple[float, str]], colour: str = "") -> None:
        """Small words of one line, each around its own x."""
        paint = f' fill="{colour}"' if colour else ""
        spans = "".join(f'<tspan x="{number(x)}">{said(word)}</tspan>' for x, word in words)
        style = f'font-size="{self.small:g}" text-anchor="middle"{paint}'
        self.texts.append(f'<text y="{number(y)}" {style}>{spans}</text>')

    def upright(self, x: float, y: float, words: str) -> None:
        """Words from below upwards, their middle at (x, y)."""
        turned = f'transform="rotate(-90 {place(x, y)})" text-anchor="middle" fill-opacity=".75"'
        self.marks.append(
            f'<g {turned}><text x="{number(x)}" y="{number(y)}" font-size="{self.small:g}">'
            f"{said(words)}</text></g>"
        )

    def wide(self, text: str, size: float = 0, bold: bool = False) -> float:
        """How wide words of this sheet are."""
        return letters.width(text, size or self.size, bold)

    def title(self, text: str) -> float:
        """The picture's name at its top, in as many lines as it takes; the height below it."""
        y, high = 0.0, self.size + 5
        for line in letters.lines(text, self.width - 4, self.size + 1, bold=True):
            y += high
            self.text(0, y - 4, line, size=self.size + 1, bold=True)
        return y + 6

    def legend(self, entries: list[tuple[str, Look]], y: float, x: float = 0) -> float:
        """Swatches with names, as many a line as fit; where the next thing may begin."""
        left = x
        for name, look in entries:
            wide = 20 + self.wide(name, self.small)
            if x > left and x + wide > self.width:
                x, y = left, y + 21
            self.rect(x + 1, y + 1, 13, 13, look, radius=2)
            self.text(x + 20, y + 12, name, size=self.small)
            x += wide + 16
        return y + 24

    def svg(self, title: str, description: str, height: float = 0) -> str:
        """The finished picture. Its ids are a checksum of its content: equal on every machine,
        different between pictures.
        """
        high = number(height or self.bottom + 4)
        hatching = "".join(
            f'<path class="mlx-hatch"{HIDDEN} d="{"".join(paths)}" fill="url(#ID{ord(hatch)})" '
            'pointer-events="none"/>'
            for hatch, paths in self.hatched.items()
        )
        patterns = "".join(
            f'<pattern id="ID{ord(hatch)}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path d="{HATCHES[hatch]}" stroke="#000" stroke-opacity=".55" fill="none"/></pattern>'
            for hatch in self.hatched
        )
        defs = f"<defs>{patterns}</defs>" if patterns else ""
        cells = "".join(f'<path d="{"".join(d)}" fill="{c}"/>' for c, d in self.cells.items())
        frames = "".join(
            f'<path d="{"".join(d)}" fill="none" {style}/>' for style, d in self.frames.items()
        )
        kind, shown = ("narrow", "display:none;") if self.narrow else ("wide", "")
        whole = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mlx-chart mlx-{kind}" role="img" '
            f'aria-labelledby="IDt IDd" viewBox="0 0 {number(self.width)} {high}" width="100%" '
            f'style="{shown}max-width:{number(self.width)}px" fill="currentColor" '
            f'font-family="{FACE}"><title id="IDt">{said(title)}</title>'
            f'<desc id="IDd">{said(description)}</desc>{defs}'
            f"{EDGE}{''.join(self.fills)}{cells}</g>{hatching}{frames}{''.join(self.marks)}{''.join(self.texts)}</svg>"
        )
        key = f"c{zlib.crc32(whole.encode()):08x}"
        whole = whole.replace('"ID', f'"{key}').replace(" IDd", f" {key}d")
        return whole.replace("(#ID", f"(#{key}")
