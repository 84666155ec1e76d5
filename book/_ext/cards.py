"""What a link to a page looks like where people pass it on: a card of 1200 by 630 pixels.

A chapter's has its number, its title, what the front page says of it, and its drawing there; a
trial shares its chapter's; other pages have the book's. Cards need an address, so they are made
where the site's address is known (address.py), by describe.py.
"""

import re
from functools import cache
from html import escape
from pathlib import Path

import contents
import raster
from ahead import digest
from sphinx.application import Sphinx

from mathlib.show.kit import letters

WIDE, HIGH, EDGE = 1200, 630, 72
INK, QUIET, GROUND = "#14243a", "#51606f", "#f2f5f8"
ROOM = 560.0  # of words, left of the drawing
TITLE, SAID, SMALL = 62, 29, 26
SENTENCE = r"```\{{chapter-card\}} {name}\n(.+?)\n```"
FACE = "font-family=\"'Source Sans 3'\""


def written(words: str, size: int, y: float, bold: bool = False, room: float = ROOM) -> tuple:
    """Lines of words as SVG, and where the next thing may stand."""
    weight = ' font-weight="600"' if bold else f' fill="{QUIET}"'
    lines = letters.lines(words, room, size, bold)
    leading = size * 1.18 if bold else size * 1.3
    told = "".join(
        f'<text x="{EDGE}" y="{y + leading * i:g}" font-size="{size}"{weight}>{escape(one)}</text>'
        for i, one in enumerate(lines)
    )
    return told, y + leading * len(lines)


def card(over: str, title: str, said: str, drawing: str, foot: str) -> str:
    """The card as SVG: words on the left, the drawing on the right."""
    above, y = written(over, SMALL, 128)
    name, y = written(title, TITLE, y + 44, bold=True)
    told, _ = written(said, SAID, y + 6)
    mark, _ = written(foot, SMALL, HIGH - 56, room=WIDE)
    picture = re.sub(r"<svg ", '<svg x="700" y="195" width="440" height="220" ', drawing, count=1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" {FACE} '
        f'fill="{INK}" color="{INK}"><rect width="{WIDE}" height="{HIGH}" fill="#fff"/>'
        f'<rect x="668" width="532" height="{HIGH}" fill="{GROUND}"/>'
        f'<rect width="{WIDE}" height="14" fill="{INK}"/>'
        f"{above}{name}{told}{mark}{picture}</svg>"
    )


@cache
def of_chapter(root: Path, name: str, foot: str) -> str:
    """A chapter's card."""
    title = contents.title(root, f"chapters/{name}")
    index = (root / "book/index.md").read_text("utf-8")
    said = re.search(SENTENCE.format(name=name), index, re.DOTALL)[1]
    drawing = (root / f"book/thumbs/{name}.svg").read_text("utf-8").strip()
    over = f"Chapter {contents.number(root, f'chapters/{name}')}"
    return card(over, title.partition(": ")[0], said, drawing, foot)


def of_book(root: Path, title: str) -> str:
    """The card of all other pages."""
    said = "Every formula of training transformers on many devices: derived, run and counted."
    drawing = (root / "book/_static/favicon.svg").read_text("utf-8").strip()
    return card("An executable book", title, said, drawing, "")


def written_for(app: Sphinx, pagename: str) -> str:
    """Write the page's card into the site; its address there."""
    root, foot = Path(app.confdir), app.config.html_title
    name = pagename.rpartition("/")[2]
    is_chapter = pagename.startswith("chapters/") and (root / f"book/thumbs/{name}.svg").exists()
    svg = of_chapter(root, name, foot) if is_chapter else of_book(root, foot)
    place = f"_static/cards/{name if is_chapter else 'book'}-{digest(svg.encode())}.png"
    file = Path(app.outdir) / place
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(raster.png(svg, root, WIDE))
    return place
