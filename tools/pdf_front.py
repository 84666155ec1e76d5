"""The front of the PDF: cover, contents with page numbers, the poster."""

import re
from html import escape
from pathlib import Path

import colophon
import contents
from pdf_print import Printed

from mathlib.show.kit.sheet import WIDE
from mathlib.show.schemes import poster

STYLE = (Path(__file__).parent / "pdf_front.css").read_text("utf-8")


def page(inside: str) -> str:
    return f'<!DOCTYPE html><html lang="en"><style>{STYLE}</style><body>{inside}</body></html>'


def cover(root: Path) -> str:
    """Title, authors, version and date, and the drawings of all chapters."""
    words = [page.removeprefix("chapters/") for page in contents.numbered(root)]
    drawn = "".join((root / f"book/thumbs/{word}.svg").read_text("utf-8") for word in words)
    return page(
        f'<div class="cover"><div><h1>{escape(colophon.configured()["title"])}</h1>'
        "<p>The arithmetic of training transformers on many devices:<br>"
        "derived, predicted, run and counted</p></div>"
        f'<div class="thumbs">{drawn}</div>'
        f"<div><p>{escape(colophon.authors())}</p><p>{colophon.edition()}</p></div></div>"
    )


def numbered(body: list[Printed]) -> list[tuple[Printed, int, dict[str, int]]]:
    """Each part with the number of its first page, and of the page of each section."""
    found, first = [], 1
    for part in body:
        at = {id: first + part.places[id][0] for id, _ in part.sections}
        found.append((part, first, at))
        first += len(part)
    return found


def table_of(
    parts: dict[str, list[str]],
    counted: list[tuple[Printed, int, dict[str, int]]],
    origin: str,
    elsewhere: dict[str, str],
) -> str:
    """Parts, chapters, and the sections of chapters, each with its page; and what is `elsewhere`,
    titles by address.
    """
    headings = {of[0]: name for name, of in parts.items()}
    rows = []
    for part, first, sections in counted:
        if part.name in headings:
            rows.append(f"<h2>{escape(headings[part.name])}</h2>")
        address = f"{origin}{part.name}.html"
        rows.append(line("chapter", part.title, first, address))
        if re.fullmatch(r"chapters/\w+", part.name):
            rows += [
                line("section", title, sections[id], f"{address}#{id}")
                for id, title in part.sections
            ]
    rows.append("<h2>On the site alone</h2>")
    rows += [
        f'<p class="elsewhere"><b>{escape(title)}</b><br>{escape(address)}</p>'
        for address, title in elsewhere.items()
    ]
    return page(f'<h1>Contents</h1><div class="lines">{"".join(rows)}</div>')


def line(kind: str, title: str, number: int, address: str) -> str:
    """A line of the contents."""
    told = f"<span>{escape(title)}</span><i></i><span>{number}</span>"
    return f'<a class="line {kind}" href="{address}">{told}</a>'


def poster_page() -> str:
    return page(poster.drawn(WIDE))


def metadata() -> dict[str, str]:
    given = colophon.configured()
    return {
        "/Title": given["title"],
        "/Author": given["author"],
        "/Subject": colophon.edition(),
    }
