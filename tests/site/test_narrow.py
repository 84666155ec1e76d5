"""From a small phone to a tablet: no page scrolls sideways, what does so by itself is reached with
the keyboard, and both menus can be read.
"""

import pytest
from axe import SERIOUS, violations
from pages import toc_pages

BESIDE = ["search", "genindex"]
BORDERS = {576, 577, 599, 600, 601, 719, 720, 735, 767, 768, 959, 960, 975, 980, 991, 992}
WIDTHS = sorted({*range(320, 1101, 20), *BORDERS})
SIDEWAYS = """async ([address, widths]) => {  // in a frame, which is laid out and not painted
    const frame = document.createElement('iframe');
    frame.style.cssText = 'position: fixed; inset: 0 auto auto 0; height: 800px; border: 0';
    frame.src = address;
    document.body.replaceChildren(frame);
    await new Promise((loaded) => { frame.onload = loaded; });
    await frame.contentDocument.fonts.ready;
    for (const folded of frame.contentDocument.querySelectorAll('details')) folded.open = true;
    const page = frame.contentDocument.scrollingElement;
    return widths.map((width) => {
        frame.style.width = `${width}px`;
        return [width, page.scrollWidth - page.clientWidth];
    }).filter(([, beyond]) => beyond > 0);
}"""
STOPS = """() => [...document.querySelectorAll('article *')].filter((e) => {
    const can = /auto|scroll/.test(getComputedStyle(e).overflowX);
    if (!can || e.scrollWidth <= e.clientWidth) return e.matches('.katex-display[tabindex]');
    const inside = e.querySelector('a, button, input, [tabindex="0"]');
    return e.tabIndex < 0 && !inside && e.checkVisibility();
}).map((e) => e.outerHTML.slice(0, 160))"""  # that are missing, or formulas that need none


@pytest.fixture(scope="module")
def host(chromium, origin):
    page = chromium.new_page(viewport={"width": 1200, "height": 844})
    page.goto(f"{origin}404.html")
    yield page
    page.close()


@pytest.mark.parametrize("name", [*toc_pages(), *BESIDE])
def test_no_page_scrolls_sideways_at_any_width(host, origin, name):
    assert host.evaluate(SIDEWAYS, [f"{origin}{name}.html", WIDTHS]) == []


def reached(page) -> None:
    """Also when a window becomes narrow that was wide, and again when it becomes wide."""
    wide = page.viewport_size
    for size in ({"width": 390, "height": 844}, wide, {"width": 320, "height": 844}):
        page.set_viewport_size(size)
        page.wait_for_function(f"({STOPS})().length === 0")
    found = violations(page, *SERIOUS, runOnly=["scrollable-region-focusable"])
    page.set_viewport_size(wide)  # as it was, for the next test
    assert not found, "\n".join(found)


def test_what_scrolls_by_itself_is_reached_with_the_keyboard(desk):
    reached(desk.page)


@pytest.mark.parametrize("name", BESIDE)
def test_so_it_is_on_a_page_beside_the_book(visit, name):
    reached(visit(name, viewport={"width": 1280, "height": 844}).page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 991])
def test_both_menus_have_a_ground_of_their_own_and_a_margin(visit, width, scheme):
    size = {"width": width, "height": 844}
    page = visit("book/notation", viewport=size, color_scheme=scheme).page
    for side in ("primary", "secondary"):
        page.locator(f".{side}-toggle").click()
        menu = page.locator(f"#pst-{side}-sidebar-modal")
        link = menu.locator("nav a").first
        assert link.is_visible()
        ground = "e => getComputedStyle(e).backgroundColor"
        assert menu.evaluate(ground) == page.locator("body").evaluate(ground), "not to be read"
        assert link.bounding_box()["x"] - menu.bounding_box()["x"] >= 12
        found = violations(page, *SERIOUS, within="dialog[open]")
        assert not found, "\n".join(found)
        page.keyboard.press("Escape")
