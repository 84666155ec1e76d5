"""The card of each chapter: its number and title, its sentence whole, nothing over the edge."""

import re
from io import BytesIO

import cards
import contents
import pytest
import raster
from pages import ROOT
from PIL import Image

from mathlib.show.kit import letters

CHAPTERS = contents.numbered(ROOT)
TEXT = re.compile(r'<text x="72" y="([\d.]+)" font-size="(\d+)"([^>]*)>([^<]*)</text>')


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_card_has_room_for_its_words(page):
    svg = cards.of_chapter(ROOT, page.removeprefix("chapters/"), "The book")
    *lines, foot = TEXT.findall(svg)
    assert lines[0][3] == f"Chapter {CHAPTERS.index(page) + 1}" and foot[3] == "The book"
    assert max(float(y) for y, *_ in lines) < float(foot[0]) - 50
    for _, size, style, words in lines:
        assert letters.width(words, int(size), "font-weight" in style) < cards.ROOM


def test_chapters_differ_in_their_drawings():
    svgs = {cards.of_chapter(ROOT, page.removeprefix("chapters/"), "") for page in CHAPTERS}
    drawings = {svg[svg.index('<svg x="') :] for svg in svgs}
    assert len(drawings) == len(CHAPTERS)


def test_a_card_is_a_png_with_words_and_a_drawing():
    svg = cards.of_chapter(ROOT, "tensor", "The book")
    with Image.open(BytesIO(raster.png(svg, ROOT, cards.WIDE))) as card:
        assert card.size == (1200, 630)
        grey = card.convert("L")
        assert grey.crop((72, 150, 600, 300)).getextrema()[0] < 60, "the title"
        assert len(card.crop((700, 195, 1140, 415)).getcolors(1 << 16)) > 5, "drawn"
