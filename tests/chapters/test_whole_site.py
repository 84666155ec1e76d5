"""A site that has lost something is told by the page's name, before it is published."""

import json
import shutil
from pathlib import Path

import pytest
import whole_site
import yaml

ROOT = Path(whole_site.__file__).parents[1]
TOC = {"root": "index", "parts": [{"chapters": [{"file": "chapters/one"}, {"file": "list"}]}]}
PROSE = "word " * 500
CELLS = [{"cell_type": kind, "source": [PROSE, PROSE]} for kind in ("markdown", "code")]


def written(folder, page, words):
    path = folder / "html" / f"{page}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = "<nav>{0}</nav><article><script>{0}</script><p>{1}</p></article>{0}"
    path.write_text(frame.format(PROSE, "word " * words), "utf-8")


@pytest.fixture
def book(tmp_path):
    """Three pages that are whole: one of words, a notebook, one that the build writes."""
    (tmp_path / "_toc.yml").write_text(yaml.dump(TOC), "utf-8")
    (tmp_path / "index.md").write_text(PROSE, "utf-8")
    (tmp_path / "list.md").write_text("```{bibliography}\n```\n", "utf-8")
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters/one.ipynb").write_text(json.dumps({"cells": CELLS}), "utf-8")
    for page, words in {"index": 450, "chapters/one": 1900, "list": 250}.items():
        written(tmp_path, page, words)
    found(tmp_path, "index.html", "chapters/one.html#a", "list.html")
    return tmp_path


def found(folder, *places):
    records = json.dumps([{"url": place} for place in places])
    (folder / "html/sections.json").write_text(records, "utf-8")


LOST = {
    "nothing": (lambda book: None, []),
    "a page": (lambda book: (book / "html/chapters/one.html").unlink(), ["chapters/one: no page"]),
    "an end": (
        lambda book: written(book, "chapters/one", 1500),
        ["chapters/one: 1500 words, expected at least 1600"],
    ),
    "what a build writes": (
        lambda book: written(book, "list", 0),
        ["list: 0 words, expected at least 200"],
    ),
    "a page of the index": (
        lambda book: found(book, "index.html", "list.html#b"),
        ["chapters/one: nothing in the search index"],
    ),
    "the index": (
        lambda book: (book / "html/sections.json").unlink(),
        [f"{page}: nothing in the search index" for page in ("index", "chapters/one", "list")],
    ),
    "all": (
        lambda book: shutil.rmtree(book / "html"),
        [f"{page}: no page" for page in ("index", "chapters/one", "list")],
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_what_is_lost_has_a_name(book, what):
    lose, told = LOST[what]
    lose(book)
    assert list(whole_site.wrongs(book, book / "html")) == told


def test_a_site_is_published_only_after_it_was_asked():
    flow = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text("utf-8"))
    steps = [step.get("run") or step["uses"] for step in flow["jobs"]["build"]["steps"]]
    (asked,) = (i for i, step in enumerate(steps) if "tools/whole_site.py" in step)
    (upload,) = (i for i, step in enumerate(steps) if "upload-pages-artifact" in step)
    assert steps.index("make html") < asked < upload
    assert flow["jobs"]["deploy"]["needs"] == "build"
