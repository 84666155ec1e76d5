"""What the one setting BOOK_REPOSITORY adds: links that name the repository, a sitemap, social
cards.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import colophon
import nbformat
import pytest
from address import configure, site_of
from colab_cell import with_first_cell
from IPython.core.inputtransformer2 import TransformerManager
from pages import ROOT
from PIL import Image
from sphinx.config import Config
from sphinx.errors import ConfigError

REPOSITORY = "https://github.com/Somebody/transformer-math"
HOME = "https://somebody.github.io/transformer-math/"


PAGES = ["book/how-to-run", "chapters/roofline", "chapters/trials/zero"]  # one of each kind


def small_book(folder: Path) -> Path:
    """A book of these pages alone, that knows what has been computed for the whole."""
    for name in ("_config.yml", "book", "chapters", "mathlib"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "_build").mkdir()
    for name in ("answers", "live"):
        (folder / "_build" / name).symlink_to(ROOT / "_build" / name)
    parts = [{"caption": name, "chapters": [{"file": name}]} for name in PAGES[1:]]
    toc = {"format": "jb-book", "root": PAGES[0], "parts": parts}
    (folder / "_toc.yml").write_text(json.dumps(toc))
    return folder


def build(book: Path, repository: str) -> tuple[int, str]:
    """How a build ends and what it says; into a file, as whatever outlives it would hold a pipe.
    Not strict: links to pages that are left out are warned of.
    """
    command = [sys.executable, ROOT / "tools/build_site.py", book]
    given = {**os.environ, "BOOK_REPOSITORY": repository}
    with tempfile.TemporaryFile("w+") as said:
        end = subprocess.run(command, env=given, stdout=said, stderr=subprocess.STDOUT, check=False)
        said.seek(0)
        return end.returncode, said.read()


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    book = small_book(tmp_path_factory.mktemp("published"))
    code, said = build(book, REPOSITORY)
    assert code == 0, said[-3000:]
    yield book / "_build/html"
    shutil.rmtree(book)


def test_chapters_offer_binder_colab_source_and_issues(published):
    chapter = PAGES[1]
    text = (published / f"{chapter}.html").read_text("utf-8")
    assert "https://mybinder.org/v2/gh/Somebody/transformer-math/launch?" in text
    assert (
        f"https://colab.research.google.com/github/Somebody/transformer-math/blob/launch/{chapter}.ipynb"
        in text
    )
    assert f"{REPOSITORY}/blob/main/{chapter}.ipynb" in text
    assert f"{REPOSITORY}/issues/new" in text


def test_the_sitemap_lists_every_page(published):
    text = (published / "sitemap.xml").read_text("utf-8")
    for page in PAGES:
        assert f"<loc>{HOME}{page}.html</loc>" in text


def test_every_page_says_its_version_and_the_day_of_the_last_change(published):
    assert re.fullmatch(r"Version [\d.]+(, \d{4}-\d\d-\d\d)?", colophon.edition())
    for page in PAGES:
        assert colophon.edition() in (published / f"{page}.html").read_text("utf-8")


def test_every_page_has_a_social_card(published):
    for page in PAGES:
        text = (published / f"{page}.html").read_text("utf-8")
        said = dict(re.findall(r'<meta property="(og:[\w:]+)" content="([^"]*)"', text))
        assert (
            said["og:title"] and said["og:description"] and said["og:url"] == f"{HOME}{page}.html"
        )
        assert said["og:site_name"] == "Transformer Math, Measured"
        assert said["og:image"].startswith(HOME)
        with Image.open(published / said["og:image"].removeprefix(HOME)) as card:
            assert f"{card.width} {card.height}" == "1200 630" and card.format == "PNG"
            assert len(card.getcolors(1 << 20)) > 50, "words and a drawing"


@pytest.mark.parametrize(
    "wrong", ["http://example.org/x", "somebody/transformer-math", "https://github.com/somebody"]
)
def test_an_address_that_is_none_stops_the_build(monkeypatch, wrong):
    monkeypatch.setenv("BOOK_REPOSITORY", wrong)
    with pytest.raises(ConfigError, match=f"BOOK_REPOSITORY = '{wrong}'"):
        configure(None, Config())


def test_a_build_prepares_no_grammars_and_looks_for_rubbish_seldom():
    code = "import sys, gc, build_site, jupyter_book.config\n"
    code += "print('lark' in sys.modules, gc.get_threshold())"
    given = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    said = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, check=True)
    assert said.stdout == b"False (200000, 50, 1000)\n"


def test_where_pages_serves_a_repository():
    assert site_of(REPOSITORY) == HOME
    assert (
        site_of("https://github.com/Somebody/somebody.github.io") == "https://somebody.github.io/"
    )


class Shell:
    """Notes what a cell asks the shell for."""

    def __init__(self):
        self.asked = []

    def system(self, command):
        self.asked.append(command)

    def run_line_magic(self, name, line):
        self.asked.append(f"{name} {line}")


def test_colabs_first_code_cell_fetches_the_book_and_installs_the_library(monkeypatch, tmp_path):
    path = next((ROOT / "chapters").glob("*.ipynb"))
    before = json.loads(path.read_text("utf-8"))
    after = with_first_cell(before, REPOSITORY)
    nbformat.validate(nbformat.from_dict(after))
    first = next(cell for cell in after["cells"] if cell["cell_type"] == "code")
    others = [c for c in after["cells"] if c is not first]
    for cell, was in zip(others, before["cells"], strict=True):
        hidden = was["metadata"].get("jupyter", {})
        assert cell["source"] == was["source"] and ("cellView" in cell["metadata"]) == bool(hidden)
        assert cell.get("outputs") == ([] if "outputs_hidden" in hidden else was.get("outputs"))
    code, shell = TransformerManager().transform_cell("".join(first["source"])), Shell()
    exec(code, {"get_ipython": lambda: shell})
    assert shell.asked == [], "it is not installed again where it is there"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book/chapters").mkdir(parents=True)  # as if it had been fetched
    exec(code, {"get_ipython": lambda: shell})
    clone, install, goes = shell.asked
    assert clone.startswith("git clone") and clone.endswith(f"--branch main {REPOSITORY} book")
    assert install == 'pip install --quiet "./book[notebooks]"' and goes == "cd -q book/chapters"
