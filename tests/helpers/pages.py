"""What the book consists of, for its tests: pages, notebooks, their cells."""

import re
from functools import partial
from pathlib import Path

import contents
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
PREFIX = "/below/a/sub-path/"
DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
PAPER = {"width": 665, "height": 1000}  # an A4 page without its margins, in CSS pixels
CHAPTERS = contents.notebooks(ROOT)  # and trials
SEEN = """all => all.filter((e) => {  // what a reader sees of them: asked of all at once, for speed
    const { width, height } = e.getBoundingClientRect();
    return width && height && e.checkVisibility({ visibilityProperty: true });
}).map((e) => e.innerText)"""
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=partial(contents.page, ROOT))


def toc_pages() -> list[str]:
    """Every page the table of contents promises, without its ending."""
    return contents.every_page(ROOT)


def chapter_pages() -> list[str]:
    """Pages that teach, without trials."""
    return [page for page in toc_pages() if re.fullmatch(r"chapters/\w+", page)]


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def policy() -> str:
    """The strict policy, as the page about publishing recommends it."""
    text = (ROOT / "book/how-to-publish.md").read_text("utf-8")
    lines = re.search(r"^Content-Security-Policy:((?:\n  .+)+)$", text, re.MULTILINE)[1]
    return " ".join(lines.split())


def broken(request) -> bool:
    """Whether a request failed that the page needed; leaving a page cancels that for its icon."""
    return not (request.failure == "net::ERR_ABORTED" and "favicon" in request.url)


def quiet(page) -> None:
    """Wait until a page has run its scripts and asks for nothing more.

    The second alone may come before the first, where a slow machine still reads the page.
    """
    page.wait_for_load_state("load")
    page.wait_for_load_state("networkidle")
