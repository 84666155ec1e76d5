"""A chapter on paper: nothing cut, nothing dead, answers and solutions printed, plumbing not."""

import re

import pytest
from pages import PAPER, SEEN, toc_pages

CHAPTERS = [name for name in toc_pages() if name.startswith("chapters/")]
pytestmark = pytest.mark.parametrize("page_once", CHAPTERS, indirect=True)
DEAD = (
    "article :is(button, form, input, select, .mlx-status, .mlx-code, .mlx-fold, .mlx-link), "
    "article :is(.mlx-more, div.mlx-controls), "
    ".prev-next-area"
)
TOO_WIDE = """() => [...document.querySelectorAll('article :is(pre, .katex-display, table, svg)')]
    .filter((e) => e.checkVisibility() && !e.closest('details:not([open])') &&
        (e.scrollWidth > e.clientWidth + 1 && e.tagName === 'PRE' ||
         e.getBoundingClientRect().right > document.documentElement.clientWidth + 1))
    .map((e) => `${e.tagName}: ${e.textContent.slice(0, 80)}`)"""
HEIGHTS = "all => all.map((e) => e.getBoundingClientRect().height)"
SPLIT = """() => [...document.querySelectorAll('article :is(figure, svg, table, .mlx-output)')]
    .filter((e) => getComputedStyle(e).breakInside !== 'avoid')
    .map((e) => e.outerHTML.slice(0, 80))"""


def test_what_can_only_be_clicked_is_not_printed(paper):
    assert paper.page.locator(DEAD).evaluate_all(SEEN) == []


def test_the_title_keeps_its_number_and_stands_once(paper):
    (title,) = paper.page.locator("h1").evaluate_all(SEEN)
    assert re.match(r"\d+\. \S", title) or "/trials/" in paper.name


def test_nothing_is_cut_and_no_picture_is_split(paper):
    assert paper.page.evaluate(TOO_WIDE) == [] and paper.page.evaluate(SPLIT) == []


def test_answers_verdicts_and_solutions_are_printed(paper):
    for selector in (
        ".mlx-predict dd",
        ".mlx-verdict .mlx-evidence :is(p, li)",
        "details.solution section",
    ):
        found = paper.page.locator(selector)
        whole = paper.page.locator(selector.split()[0]).count()  # a chapter may have no claim
        assert found.count() >= min(whole, 1), selector
        assert min(found.evaluate_all(HEIGHTS), default=6) > 5, selector


def test_paper_is_white_and_a_chapter_is_no_pile_of_it(paper):
    ink = paper.page.locator("article p").first.evaluate("e => getComputedStyle(e).color")
    assert sum(map(int, re.findall(r"\d+", ink)[:3])) < 200, "dark ink on white, in dark mode too"
    pdf = paper.page.pdf(format="A4")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    filled = paper.page.locator("article").bounding_box()["height"] / PAPER["height"]
    assert filled < pages < 1.3 * filled, "unsplit pictures leave room at the foot of a page"
