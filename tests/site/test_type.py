"""The page's faces, sizes, measure and palette are the book's own, and served by the book."""

import re

import pytest
from colophon import edition
from pages import toc_pages

PAGES = toc_pages()
CHAPTER = next(name for name in PAGES if name.startswith("chapters/"))
WIDE = {"width": 1280, "height": 900}
FACES = {
    "article p": "Source Serif 4",
    "article h1": "Source Sans 3",
    "article h2": "Source Sans 3",
    "nav.bd-links a": "Source Sans 3",
    "article div.cell pre": "Source Code Pro",
    "article .mlx-title": "Source Sans 3",
    "article .mlx-control label": "Source Sans 3",
    "article .mlx-control output": "Source Sans 3",
    "article .mlx-control select": "Source Sans 3",
    "article .mlx-actions button": "Source Sans 3",
    "article .mlx > .mlx-status": "Source Sans 3",
    "article .mlx-say": "Source Serif 4",
}
STYLE = "(e, name) => getComputedStyle(e)[name]"
WIDTH_OF_70 = """() => {
    const line = document.createElement('span');
    line.textContent = 'x'.repeat(70);
    line.style.cssText = 'visibility:hidden;white-space:pre;position:absolute';
    const p = document.querySelector('article > section > p');
    p.append(line);
    const wide = line.getBoundingClientRect().width;
    line.remove();
    return [wide, p.getBoundingClientRect().width];
}"""
PER_LINE = """() => {
    const lines = [];
    for (const p of document.querySelectorAll('article > section > p')) {
        if (p.querySelector('.katex')) continue;
        const step = parseFloat(getComputedStyle(p).lineHeight);
        const count = Math.round(p.getBoundingClientRect().height / step);
        if (count > 2) lines.push(p.textContent.length / (count - 0.5));
    }
    return lines.reduce((a, b) => a + b) / lines.length;
}"""


def style(page, selector: str, name: str) -> str:
    return page.locator(selector).first.evaluate(STYLE, name)


def pixels(page, selector: str, name: str = "fontSize") -> float:
    return float(style(page, selector, name).removesuffix("px"))


def test_every_part_of_the_page_is_set_in_its_face_and_the_face_has_arrived(look):
    page = look(CHAPTER, viewport=WIDE).page
    for selector, face in FACES.items():
        assert style(page, selector, "fontFamily").replace('"', "").startswith(face), selector
        loaded = "f => [...document.fonts].some(x => x.status === 'loaded' && x.family.includes(f))"
        assert page.evaluate(loaded, face), f"{face} has not arrived"


@pytest.mark.parametrize("name", [PAGES[0], CHAPTER])
def test_faces_weigh_little_and_the_first_screens_are_asked_for_at_once(visit, name):
    seen = visit(name, viewport=WIDE)
    faces = [r for r in seen.finished if "/_static/faces/" in r.url]
    assert faces and sum(r.sizes()["responseBodySize"] for r in faces) < 250e3
    links = seen.page.locator("link[rel=preload][as=font]")
    assert {r.url for r in faces} >= {link.evaluate("e => e.href") for link in links.all()}
    assert links.count() == 2 and not [c for c in seen.complaints if "preload" in c]


def test_text_is_large_enough_its_lines_short_enough_and_headings_step_down(look):
    page = look(CHAPTER, viewport=WIDE).page
    size = pixels(page, "article > section > p")
    assert 17 <= size <= 18
    assert 1.5 <= pixels(page, "article > section > p", "lineHeight") / size <= 1.6
    assert 62 <= page.evaluate(PER_LINE) <= 78, "characters a line"
    sizes = [pixels(page, f"article h{level}") for level in (1, 2)]
    assert 32 <= sizes[0] <= 40 and sizes[0] > 1.3 * sizes[1] > 1.3 * 1.2 * size


def test_the_column_and_its_margins_fill_the_window(look):
    """At 1280 px there is no empty third: navigation, text, and the page's contents beside it."""
    page = look(CHAPTER, viewport=WIDE).page
    article, contents = page.locator("article.bd-article"), page.locator("nav.page-toc")
    box, beside = article.bounding_box(), contents.bounding_box()
    assert 700 <= page.locator("article div.cell_input").first.bounding_box()["width"] <= 730
    assert beside["x"] >= box["x"] + box["width"] - 40 and beside["x"] + beside["width"] > 1200
    for entry in page.locator("nav.page-toc a").all():
        assert entry.evaluate("e => e.getBoundingClientRect().left") >= beside["x"] - 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scripts", [True, False])
def test_the_palette_is_the_books_own_with_and_without_scripts(visit, scheme, scripts):
    page = visit(CHAPTER, color_scheme=scheme, java_script_enabled=scripts).page
    ground, ink = (page.locator("body").evaluate(STYLE, n) for n in ("backgroundColor", "color"))
    light = [sum(map(int, c.strip("rgb()").split(","))) / 765 for c in (ground, ink)]
    assert (
        (light[0] > 0.95 and light[1] < 0.2)
        if scheme == "light"
        else (0.03 < light[0] < 0.15 and light[1] > 0.8)
    ), "neither pure black nor the other scheme"


def test_the_foot_of_a_page_says_who_wrote_it_and_which_version_it_is(look):
    foot = look(CHAPTER, viewport=WIDE).page.locator("footer.bd-footer-content").inner_text()
    assert foot.split() == edition(False).split()


def test_firefox_slants_no_letter_twice_and_gives_a_slider_the_accent(site):
    """By rule: where it maps a letter to a slanted one there is no face to slant; and a thumb."""
    css = (site / "_static/experiments.css").read_text("utf-8")
    rules = dict(re.findall(r"^([^{}@/]+?) \{ ([^{}]+) \}$", css, re.MULTILINE))
    assert "font-synthesis: none;" in rules[".mlx-equation mi"]
    for part in ("thumb", "progress"):
        rule = rules[f".mlx-control input::-moz-range-{part}"]
        assert "background: var(--pst-color-primary);" in rule
