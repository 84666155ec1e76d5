"""Everybody can use the pages: ids once, focus seen, settings named.

What axe says of each page, all open and live, is in test_policy.py.
"""

import re
from collections import Counter

import pytest
from axe import SERIOUS, STILL, violations
from pages import SITE, quiet

BUILT = sorted(
    path.relative_to(SITE).with_suffix("").as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts
)
UNSEEN = """() => {
    const shown = (e) => {
        const s = getComputedStyle(e);
        return [s.outline, s.boxShadow, s.borderColor, s.backgroundColor].join();
    };
    const e = document.activeElement;
    const focused = shown(e);
    e.blur();
    const plain = shown(e);
    e.focus({ preventScroll: true, focusVisible: true });
    return focused === plain ? e.outerHTML.slice(0, 120) : '';
}"""


def test_axe_finds_nothing_among_search_results(visit):
    seen = visit("search")
    seen.page.goto(f"{seen.origin}search.html?q=memory")
    quiet(seen.page)
    assert seen.page.locator("#mlx-results li mark").count()
    found = violations(seen.page, "moderate", *SERIOUS)
    assert not found, "\n".join(found)


FAINT = """() => { for (const colour of ['silver', 'silver', 'silver', 'silver', 'navy'])
    document.querySelector('article').append(Object.assign(document.createElement('p'),
        { textContent: 'Hard to read', style: `color: ${colour}` }));
}"""


def test_axe_sees_faint_words_among_many_in_light_and_in_dark(visit):
    """It measures three of each look: here one of a kind in light, another in dark."""
    page = visit("book/how-to-run").page
    page.evaluate(FAINT)
    page.evaluate("document.querySelector('article').append(document.createElement('img'))")
    found = violations(page, "moderate", *SERIOUS)
    faint = re.findall("serious color-contrast: <p[^>]* style=.color: (.*?);", "".join(found))
    assert faint == ["silver"] * 3 + ["navy"]
    assert sum("critical image-alt" in one for one in found) == 1 and len(found) == 5


def test_an_id_stands_once_on_a_page_and_so_does_the_viewport():
    for name in BUILT:
        text = (SITE / f"{name}.html").read_text("utf-8")
        ids = Counter(re.findall(r"<[a-zA-Z][^<>]*?\sid=\"([^\"]+)\"", text))
        assert [i for i, count in ids.items() if count > 1] == [], name
        assert text.count('name="viewport"') == 1, name


@pytest.mark.parametrize("name", ["index", "404"])
def test_pages_beside_the_book_are_whole(visit, name):
    text = (SITE / f"{name}.html").read_text("utf-8")
    assert '<html lang="en">' in text and 'rel="icon"' in text
    assert re.search(r"<title>[^<]*Transformer Math, Measured</title>", text)
    seen = visit(name)
    assert seen.complaints == []


def test_old_browsers_find_an_icon():
    icon = (SITE / "favicon.ico").read_bytes()
    assert icon[:6] == b"\0\0\1\0\1\0" and icon[22:30] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", ["chapters/roofline", "book/index", "search"])
def test_every_tab_stop_can_be_seen(visit, name):
    page = visit(name).page
    page.add_style_tag(content=STILL)
    page.mouse.click(1, 1)
    unseen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        if hidden := page.evaluate(UNSEEN):
            unseen.append(hidden)
    assert unseen == []


def test_settings_are_called_by_the_experiments_name_and_are_large_enough(visit):
    page = visit("chapters/collectives", viewport={"width": 390, "height": 844}).page
    names = page.eval_on_selector_all(
        "div.mlx-controls", "es => es.map((e) => e.getAttribute('aria-label'))"
    )
    titles = page.locator(".mlx-title").all_text_contents()
    assert names == [f"Settings of the experiment: {title}" for title in titles]
    small = page.eval_on_selector_all(
        ".mlx :is(input, select, button, summary, a)",
        """es => es.map((e) => [e.outerHTML.slice(0, 60), e.getBoundingClientRect()])
            .filter(([, box]) => box.height && (box.height < 24 || box.width < 24))
            .map(([text]) => text)""",
    )
    assert small == []


def test_a_phone_shows_the_main_settings_and_folds_the_rest(visit):
    phone, desk = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
    for size, folded in ((phone, True), (desk, False)):
        page = visit("chapters/inference", viewport=size).page
        more = page.locator(".mlx-more").first
        assert more.evaluate("e => !e.open") == folded
        rows = page.locator(".mlx:has(.mlx-more) .mlx-controls > .mlx-set > .mlx-control")
        assert rows.count() == 3
    spec = page.locator(".mlx:has(.mlx-more)").first.evaluate("e => JSON.parse(e.dataset.mlx)")
    named = more.locator("summary").inner_text()
    assert named.startswith("More settings")
    for control in spec["controls"][spec["main"] :]:
        assert control["label"] in named, "whoever reads its name must find where it is"
    order = page.locator(".mlx").first.evaluate(
        "e => [...e.children].map((c) => c.className).filter((n) => /output|controls/.test(n))"
    )
    assert order == ["mlx-output", "mlx-controls"]
