"""The order of the book, as _toc.yml has it, and what pages are called. Files are named by their
word alone.
"""

import re
from functools import cache
from pathlib import Path

import stored
import yaml


def numbered(root: Path) -> list[str]:
    """The pages that have a chapter's number, in reading order."""
    return [page for part in parts(root) if part.get("numbered") for page in pages_of(part)]


def notebooks(root: Path) -> list[Path]:
    """Chapters, then trials, in reading order."""
    pages = [page for part in parts(root) for page in pages_of(part)]
    files = [root / f"{page}.ipynb" for page in pages if page.startswith("chapters/")]
    return [file for file in files if file.exists()]


def number(root: Path, page: str) -> str:
    """A chapter's number, "T4" for the trial of chapter 4; nothing for any other page."""
    chapter, chapters = page.replace("/trials/", "/"), numbered(root)
    if chapter not in chapters:
        return ""
    return ("" if chapter == page else "T") + str(chapters.index(chapter) + 1)


def page(root: Path, notebook: Path) -> str:
    """A notebook's page, as Sphinx names it."""
    return notebook.relative_to(root).with_suffix("").as_posix()


def title(root: Path, page: str) -> str:
    """What a page is called, by its first heading."""
    notebook = root / f"{page}.ipynb"
    if notebook.exists():
        cells = stored.notebook(notebook)["cells"]
        text = "".join(next(one["source"] for one in cells if one["cell_type"] == "markdown"))
    else:
        text = notebook.with_suffix(".md").read_text("utf-8")
    return re.search(r"^# (.+)$", text, re.M)[1]


def every_page(root: Path) -> list[str]:
    """The front page, then all others in reading order."""
    return [_toc(root)["root"], *(page for part in parts(root) for page in pages_of(part))]


def parts(root: Path) -> list[dict]:
    return _toc(root)["parts"]


def pages_of(part: dict) -> list[str]:
    return [entry["file"] for entry in part["chapters"]]


def _toc(root: Path) -> dict:
    file = root / "_toc.yml"
    return _read(file, file.stat().st_mtime_ns)


@cache
def _read(file: Path, changed: int) -> dict:
    return yaml.safe_load(file.read_text("utf-8"))
