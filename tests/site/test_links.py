"""Links to the world, and between the book's own pages."""

import re
from html import unescape
from types import SimpleNamespace

import places
import pybtex.plugin
import pytest
import thrift
from docutils import nodes
from pages import ROOT, toc_pages
from sphinx.errors import ExtensionError

BIB = (ROOT / "book/references.bib").read_text("utf-8")


def entries() -> dict[str, str]:
    return {m[1]: m[2] for m in re.finditer(r"^@\w+\{(\w+),(.*)\}$", BIB, re.M)}


def text(site, name: str) -> str:
    return unescape((site / f"{name}.html").read_text("utf-8"))


@pytest.mark.parametrize("key", entries())
def test_every_entry_has_an_address(key):
    assert re.search(r"\b(url|doi|eprint)=\{", entries()[key])


def test_the_bibliography_links_out(site):
    page = text(site, "book/bibliography")
    links = set(re.findall(r'href="(https?://[^"]+)"', page))
    cited = re.findall(r'<div class="citation" id="id\d+"|class="citation"', page)
    assert len([x for x in links if "arxiv.org/abs/" in x]) >= 10
    assert "https://jax-ml.github.io/scaling-book/" not in page or (
        'href="https://jax-ml.github.io/scaling-book/"' in page
    )
    assert len(links) >= len(cited)


def test_what_is_installed_is_looked_through_once_for_all_citations(monkeypatch):
    asked, known = [], pybtex.plugin.entry_points
    monkeypatch.setattr(pybtex.plugin, "entry_points", lambda **of: asked.append(of) or known(**of))
    monkeypatch.setattr(pybtex.plugin, "_load_entry_point", pybtex.plugin._load_entry_point)
    app = SimpleNamespace(connect=lambda *given: None, add_lexer=lambda *given: None)
    for _ in range(3):
        thrift.setup(app)
        pybtex.plugin.find_plugin("pybtex.backends", "latex")
    assert len(asked) == 1


def test_the_texts_on_trial_are_linked(site):
    page = text(site, "book/ledger")
    for start in ("https://www.latent.space", "https://docs.aws", "https://www.cnblogs.com"):
        assert f'<a href="{start}' in page
    assert 'href="https://pytorch.org"' in text(site, "book/index")


def test_the_bibliography_fits_the_smallest_phone(visit):
    page = visit("book/bibliography", viewport={"width": 320, "height": 640}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_words_lead_to_the_section_that_introduces_them(site):
    page = text(site, "book/glossary")
    source = (ROOT / "book/glossary.md").read_text("utf-8")
    named = re.findall(r"\{at\}`(\w+), ([^`]+)`", source)
    assert len(named) > 40
    links = re.findall(r'<span class="mlx-at"><a[^>]*href="\.\./([^"#]+)\.html(#[^"]+)"', page)
    assert len(links) == len(named)
    for target, anchor in links:
        assert f'id="{anchor[1:]}"' in text(site, target)


def test_letters_lead_to_the_first_chapter_that_uses_them(site):
    page = text(site, "book/notation")
    rows = re.findall(r"<tr.*?</tr>", page, re.S)
    led = {
        re.search(r"<annotation[^>]*>(.*?)</annotation>", row)[1].strip(): re.search(
            r'mlx-at"><a[^>]*href="\.\./chapters/(\w+)\.html(?:#[\w-]+)?"', row
        )[1]
        for row in rows
        if "mlx-at" in row
    }
    assert led["L"] == led["D"] == "compute" and led["S"] == "mics"
    assert led["N"] in ("memory", "collectives") and len(led) > 15


def environment() -> SimpleNamespace:
    toc = nodes.bullet_list("", nodes.reference("", "One product", anchorname="#one-product"))
    return SimpleNamespace(tocs={"chapters/compute": toc})


def test_a_section_that_is_none_stops_the_build():
    env = environment()
    assert places.find(env, "chapters/compute", "One product") == "#one-product"
    with pytest.raises(ExtensionError, match="no section 'One produce'; did you mean 'One prod"):
        places.find(env, "chapters/compute", "One produce")
    with pytest.raises(ExtensionError, match="chapters/09 has no section 'x'"):
        places.find(env, "chapters/09", "x")


@pytest.mark.parametrize("name", toc_pages())
def test_a_page_is_described_by_its_first_paragraph(site, name):
    page = text(site, name)
    (said,) = re.findall(r'<meta name="description" content="([^"]*)"', page)
    assert len(said) <= 202
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    start = said[:20]
    assert name == "book/bibliography" or (len(said) > 40 and start in plain), said
    assert len(re.findall(r'property="og:title"', page)) == 1
