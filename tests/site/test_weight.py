"""What a page costs before anybody touches it, and what Python costs afterwards."""

from urllib.parse import urlsplit

import pytest
from pages import PREFIX, SITE, quiet, toc_pages

UNTOUCHED = 1.5e6  # bytes of a page with all it asks for, as they are before compression
RUNTIME = 5.5e6  # bytes over the wire until the first live result, the prover among them
UNASKED = """() => {
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
    const text = rules.map((rule) => rule.cssText).join('') + document.body.outerHTML;
    const asked = new Set([...text.matchAll(/var\\(\\s*(--[\\w-]+)/g)].map((found) => found[1]));
    const set = [...text.matchAll(/(?<=[{;\\s])(--bs-[\\w-]+):/g)].map((found) => found[1]);
    return [set.length, set.filter((name) => !asked.has(name))];
}"""


def light(seen) -> None:
    seen.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")  # nothing is left to come
    quiet(seen.page)
    asked = {urlsplit(request.url).path.partition(PREFIX)[2] for request in seen.finished}
    sizes = sorted(((SITE / name).stat().st_size, name) for name in asked - {""})
    total = sum(size for size, _ in sizes)
    assert 0 < total <= UNTOUCHED, f"{total:,} bytes, most of them in {sizes[-4:]}"


def iconless(page) -> list[str]:
    """Icons of the theme without a drawing in icons.css."""
    return page.evaluate(
        """() => [...document.querySelectorAll(':is(.fa-solid, .fas, .fa-brands, .fab)')]
            .filter((e) => !getComputedStyle(e).getPropertyValue('--icon'))
            .map((e) => e.className)"""
    )


def test_a_page_is_light_before_the_first_touch_and_asks_for_nothing_it_does_not_use(desk):
    asked = " ".join(request.url for request in desk.untouched)
    assert asked
    for unused in ("fontawesome", "bootstrap", "searchindex", "thebe", "design-tabs"):
        assert unused not in asked, unused
    light(desk)
    assert iconless(desk.page) == [], "icons are drawn without a font"


def test_a_style_sheet_sets_no_variable_that_nobody_asks_for(look):
    found, spare = look("chapters/collectives").page.evaluate(UNASKED)
    assert found > 50
    assert len(spare) < 3, spare


def test_the_menu_above_a_page_opens_without_scripts(visit):
    page = visit("chapters/collectives", java_script_enabled=False).page
    menu = page.locator(".bd-header-article details")
    assert not menu.locator("a").first.is_visible()
    menu.locator("summary").click()
    box = menu.locator(".dropdown-menu").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"]
    assert menu.get_by_text(".ipynb").is_visible()


@pytest.mark.parametrize("name", ["search", "genindex"])
def test_a_page_beside_the_book_is_light_too(visit, name):
    seen = visit(name)
    light(seen)
    assert iconless(seen.page) == []


def test_the_search_page_has_what_it_needs(visit):
    seen = visit("search")
    assert "sections.json" not in " ".join(request.url for request in seen.finished)
    seen.page.goto(f"{seen.origin}search.html?q=memory")
    quiet(seen.page)
    assert seen.page.locator("#mlx-results li").count() > 3
    asked = " ".join(request.url for request in seen.finished)
    assert "sections.json" in asked and "searchindex.js" not in asked
    assert seen.complaints == []


def test_python_is_within_its_budget(visit):
    seen = visit(next(page for page in toc_pages() if page.startswith("chapters/")))
    before = seen.weight()
    seen.page.locator(".mlx input[type=range]").first.focus()
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_selector(".mlx[data-state=live]", timeout=60_000)
    assert seen.weight() - before <= RUNTIME
    told = seen.page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            return (await import(new URL('runtime.mjs', script).href)).download;
        }"""
    )
    assert seen.weight() - before == pytest.approx(told, rel=0.03), "not what the page announces"
