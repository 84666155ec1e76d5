"""Bind printed pages into one file: links, page numbers, outline."""

from collections.abc import Sequence
from typing import Any

from pdf_print import Printed
from pypdf import PdfWriter
from pypdf.constants import PageLabelStyle
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    Fit,
    FloatObject,
    NameObject,
    NullObject,
)

TOP = 842  # of a page
GREY, SIZE, EDGE, LOW = 0.35, 8.5, 48, 26  # of a foot: its ink, letters, distance from the edges
DIGIT = 0.556  # of its size, how wide one is in Helvetica


class Binding:
    """Printed parts in order; pages of the front are counted i, ii, iii, all others from 1."""

    def __init__(self, front: Sequence[Printed], body: Sequence[Printed], origin: str, home: str):
        self.writer, self.origin, self.home = PdfWriter(), origin, home
        self.front, self.body = front, body
        self.starts: dict[str, int] = {}
        for part in (*front, *body):
            self.starts[part.name] = len(self.writer.pages)
            for page in part.reader.pages:
                self.writer.add_page(page)
        self.parts = {part.name: part for part in (*front, *body)}

    def place(self, name: str, id: str = "") -> ArrayObject | None:
        """Where a link to a page of the site, or to something on it, goes."""
        if name not in self.parts:
            return None
        within, top = self.parts[name].places.get(id, (0, TOP))
        page = self.writer.pages[self.starts[name] + within].indirect_reference
        return ArrayObject([page, NameObject("/XYZ"), NullObject(), FloatObject(top), NullObject()])

    def link(self) -> None:
        """Links to the site's pages go to their place in the file; to pages that are left out, to
        the site where its address is known, and else nowhere.
        """
        for part in self.parts.values():
            first = self.starts[part.name]
            for page in self.writer.pages[first : first + len(part)]:
                notes = [note.get_object() for note in page.get("/Annots", [])]
                kept = [note for note in notes if self._linked(note, part.name)]
                if len(kept) < len(notes):
                    added = [self.writer._add_object(note) for note in kept]
                    page[NameObject("/Annots")] = ArrayObject(added)

    def _linked(self, note: DictionaryObject, here: str) -> bool:
        """Make a link point into the file; whether it points anywhere."""
        address = note.get("/A", {}).get("/URI", "")
        if address and not address.startswith(self.origin):
            return True
        if address:
            path, _, id = address.removeprefix(self.origin).partition("#")
            here = path.partition("?")[0].removesuffix(".html")
        else:
            id = str(note.get("/Dest", "")).removeprefix("/")
        place = self.place(here, id)
        if place is not None:
            note.pop("/A", None)
            note[NameObject("/Dest")] = place
        elif self.home and address:
            note["/A"][NameObject("/URI")] = type(address)(self.home + path + ("#" + id) * bool(id))
        return place is not None or bool(self.home and address)

    def number(self) -> None:
        """A foot on each page of the body: its chapter, and its number."""
        before = len(self.writer.pages) - sum(map(len, self.body))
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
                NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
            }
        )
        font = self.writer._add_object(font)
        for part in self.body:
            for at in range(self.starts[part.name], self.starts[part.name] + len(part)):
                stamp(self.writer, self.writer.pages[at], font, part.title, str(at - before + 1))
        if before:
            self.writer.set_page_label(0, before - 1, PageLabelStyle.LOWERCASE_ROMAN)
        self.writer.set_page_label(before, len(self.writer.pages) - 1, PageLabelStyle.DECIMAL)

    def outline(self, headings: dict[str, str]) -> None:
        """Parts, chapters, sections; `headings` are those of the book's parts, by first page."""
        above: Any = None
        for part in self.body:
            if part.name in headings:
                above = self._mark(headings[part.name], part.name, "", None)
            chapter = self._mark(part.title, part.name, "", above)
            for id, title in part.sections:
                self._mark(title, part.name, id, chapter)

    def _mark(self, title: str, name: str, id: str, parent: Any) -> Any:
        place = self.place(name, id)
        page = self.writer.get_page_number(place[0].get_object())
        return self.writer.add_outline_item(
            title, page, parent=parent, fit=Fit.xyz(top=float(place[3])), is_open=False
        )


def stamp(writer: PdfWriter, page: Any, font: Any, left: str, right: str) -> None:
    """Write a foot behind what the browser has drawn, whatever scale it left behind."""
    wide = float(page.mediabox.width)
    x = wide - EDGE - DIGIT * SIZE * len(right)
    words = "".join(
        f"BT /Foot {SIZE} Tf {at:.1f} {LOW} Td <{text.encode('cp1252', 'replace').hex()}> Tj ET\n"
        for at, text in ((EDGE, left), (x, right))
    )
    page["/Resources"].setdefault(NameObject("/Font"), DictionaryObject())
    page["/Resources"]["/Font"].get_object()[NameObject("/Foot")] = font
    given = page["/Contents"]
    inside = list(given) if isinstance(given, ArrayObject) else [page.raw_get("/Contents")]
    page[NameObject("/Contents")] = ArrayObject(
        [_stream(writer, "q\n"), *inside, _stream(writer, f"\nQ\n{GREY} g\n{words}")]
    )


def _stream(writer: PdfWriter, told: str) -> Any:
    stream = DecodedStreamObject()
    stream.set_data(told.encode("ascii"))
    return writer._add_object(stream)
