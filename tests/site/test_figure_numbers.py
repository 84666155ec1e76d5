"""Figures are numbered as they are met, and references lead to them; notebooks number alike."""

import json
import re

import contents
import figures
import pytest
from docutils import nodes
from docutils.utils import new_document
from pages import CHAPTERS, ROOT
from plain import numbers
from sphinx.errors import ExtensionError

ONE = '<figure class="mlx-figure" id="fig-ring"><svg/><figcaption>A.</figcaption></figure>'
NUMBERED = (  # anchor and number of what a page counts
    r'id="equation-([\w-]+)">\s*<span class="eqno">\(([\d.]+)\)',
    r'id="fig-([\w-]+)">(?:(?!</figure>).)*?class="mlx-figure-number">Figure (T?[\d.]+)\.<',
    r'id="([\w-]+)">\s*<p class="admonition-title"><span class="caption-number">Exercise ([\d.]+)',
)
BARE = '<figure class="mlx-figure"><svg/></figure>'
TWO = '<figure class="mlx-figure"><svg/><figcaption>B.</figcaption></figure>'


def book(tmp_path, b=(), a=(), trial=()):
    """Chapters b, a, and the trial of a, in this order."""
    pages = ["chapters/b", "chapters/a", "chapters/trials/a"]
    entries = [{"file": page} for page in pages]
    parts = [{"numbered": True, "chapters": entries[:2]}, {"chapters": entries[2:]}]
    (tmp_path / "_toc.yml").write_text(json.dumps({"parts": parts}))
    (tmp_path / "chapters/trials").mkdir(parents=True)
    for page, outputs in zip(pages, (b, a, trial), strict=True):
        cells = [{"outputs": [{"data": {"text/html": [html]}}]} for html in outputs]
        path = tmp_path / f"{page}.ipynb"
        path.write_text(json.dumps({"cells": [{"source": "text"}, *cells]}))
    return tmp_path


def test_only_pictures_with_a_caption_count(tmp_path):
    tree, star = ONE.replace("ring", "tree"), ONE.replace("ring", "star")
    root = book(tmp_path, b=[TWO, BARE, ONE], a=[tree], trial=[star])
    assert figures.places(root) == {
        "ring": ("chapters/b", "1.2"),
        "tree": ("chapters/a", "2.1"),
        "star": ("chapters/trials/a", "T2.1"),
    }


def test_a_name_that_two_figures_have_ends_the_build(tmp_path):
    with pytest.raises(ExtensionError, match="'ring' exists already"):
        figures.places(book(tmp_path, b=[ONE], a=[ONE]))


def test_numbers_go_into_captions_in_order():
    html, count = figures.numbered(TWO + BARE + ONE, "4.", 2)
    assert count == 4 and html.index("Figure 4.3.") < html.index("Figure 4.4.")
    assert html.count("mlx-figure-number") == 2 and "Figure 4.4.</span> A." in html


def test_a_sum_of_parts_counts_like_any_other_picture():
    parts = ONE.replace('class="mlx-figure"', 'class="mlx-figure mlx-parts"')
    html, count = figures.numbered(parts + TWO, "2.", 0)
    assert count == 2 and html.index("Figure 2.1.") < html.index("Figure 2.2.")


def test_a_page_that_is_no_chapter_counts_from_one():
    assert "Figure 1." in figures.numbered(ONE, figures.before(ROOT, "book/index"), 0)[0]


class Builder:
    format = "html"

    def get_relative_uri(self, here, there):
        return f"{there}.html"


def resolved(tmp_path, page, name):
    app = type("App", (), {"builder": Builder(), "confdir": book(tmp_path, b=[ONE])})()
    tree = new_document("page")
    tree += nodes.paragraph("", "", *figures.fig("fig", "", name, 1, None)[0])
    figures.resolve(app, tree, page)
    return tree


def test_a_reference_is_a_link_with_the_number(tmp_path):
    (link,) = resolved(tmp_path, "chapters/a", "ring").findall(nodes.reference)
    assert link.astext() == "Figure\xa01.1" and link["refuri"] == "chapters/b.html#fig-ring"


def test_a_reference_on_the_same_page_stays_there(tmp_path):
    (link,) = resolved(tmp_path, "chapters/b", "ring").findall(nodes.reference)
    assert link["refuri"] == "#fig-ring"


def test_an_unknown_name_ends_the_build(tmp_path):
    with pytest.raises(ExtensionError, match="no figure is named 'rong'; there are ring"):
        resolved(tmp_path, "chapters/a", "rong")


def test_notebooks_give_the_numbers_of_the_pages(site):
    found = {}
    for path in CHAPTERS:
        text = (site / f"{contents.page(ROOT, path)}.html").read_text("utf-8")
        for pattern in NUMBERED:
            found |= dict(re.findall(pattern, text, re.S))
    assert numbers() == found
