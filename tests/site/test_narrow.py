"""From a small phone to a tablet: no page scrolls sideways, what does so by itself is reached with
the keyboard, and both menus can be read.
"""

import pytest
from axe import SERIOUS, violations
from pages import DESK, PHONE, toc_pages

BESIDE = ["search", "genindex"]
BETWEEN = [320, 390, 440, 500, 660, 700, 820, 900, 1040, 1100]
SIDEWAYS = """async (widths) => {  // of a copy in a frame, which is laid out and not painted
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
    const said = rules.map((rule) => rule.conditionText ?? '').join();
    const borders = [...said.matchAll(/(min|max)-width: ?([\\d.]+)px/g)].map(([, side, width]) =>
        side === 'min' ? Math.ceil(width) : Math.floor(width) + 1);  // where a rule begins to hold
    const copy = document.documentElement.cloneNode(true), frame = document.createElement('iframe');
    for (const script of copy.querySelectorAll('script, [as=script]')) script.remove();
    for (const inner of copy.querySelectorAll('svg, .katex-mathml')) inner.replaceChildren();
    for (const word of copy.querySelectorAll('pre span')) word.replaceWith(...word.childNodes);
    copy.normalize();  // what lies in a picture and how code is coloured takes time and no room
    for (const folded of copy.querySelectorAll('details')) folded.open = true;
    frame.style.cssText = 'position: fixed; inset: 0 auto auto 0; height: 800px; border: 0';
    frame.srcdoc = `<!DOCTYPE html>${copy.outerHTML}`;
    document.body.hidden = true;
    document.documentElement.append(frame);
    await new Promise((loaded) => { frame.onload = loaded; });
    await frame.contentDocument.fonts.ready;
    const page = frame.contentDocument.scrollingElement;
    const all = new Set([...widths, ...borders.filter((one) => one > 320 && one < 1200)]);
    const found = [...all].map((width) => {
        frame.style.width = `${width}px`;
        return [width, page.scrollWidth - page.clientWidth];
    });
    frame.remove();
    document.body.hidden = false;
    return found;
}"""
STOPS = """() => [...document.querySelectorAll('article *')].filter((e) => {
    const { overflowX, overflowY } = getComputedStyle(e), can = /auto|scroll/;
    const across = can.test(overflowX) && e.scrollWidth > e.clientWidth;
    const down = can.test(overflowY) && e.scrollHeight > e.clientHeight + 1;
    if (!across && e.matches('.katex-display')) return e.matches('[tabindex]');
    if (!across && !down) return false;
    const inside = e.querySelector('a, button, input, [tabindex="0"]');
    return e.tabIndex < 0 && !inside && e.checkVisibility();
}).map((e) => e.outerHTML.slice(0, 160))"""  # that are missing, or formulas that need none


@pytest.mark.parametrize("page_once", [*toc_pages(), *BESIDE], indirect=True)
def test_no_page_scrolls_sideways_at_any_width(narrow):
    """Where no rule begins or ends to hold, the narrowest width is the worst; and some between."""
    found = narrow.page.evaluate(SIDEWAYS, BETWEEN)
    assert len(found) > 15
    assert [(width, beyond) for width, beyond in found if beyond > 0] == []


@pytest.mark.parametrize("page_once", [*toc_pages(), *BESIDE], indirect=True)
def test_what_scrolls_by_itself_is_reached_with_the_keyboard(narrow):
    """Also when a window becomes narrow that was wide, and again when it becomes wide."""
    page = narrow.page
    for size in (DESK, PHONE, DESK, {"width": 320, "height": 844}):
        page.set_viewport_size(size)
        page.wait_for_function(f"() => ({STOPS})().length === 0")


def test_what_is_too_wide_or_out_of_reach_is_seen(visit):
    page = visit("book/how-to-run").page
    page.evaluate(
        """() => { for (const [place, own, inner] of [
            ['body', '', 'width: 500px; height: 1px'],
            ['article', 'overflow-x: auto; width: 9px', 'width: 20px; height: 1px'],
            ['article', 'overflow-y: auto; height: 9px', 'height: 20px']
        ]) {
            const box = document.createElement('div');
            box.style = own;
            box.append(Object.assign(document.createElement('div'), { style: inner }));
            document.querySelector(place).append(box);
        } }"""
    )
    beyond = dict(page.evaluate(SIDEWAYS, BETWEEN))
    assert beyond[320] > beyond[440] > 0 == beyond[1100]
    assert len(page.evaluate(STOPS)) == 2


@pytest.mark.parametrize("name", ["chapters/collectives", "book/notation", "book/ledger"])
def test_axe_knows_of_nothing_else_that_scrolls(look, name):
    page = look(name, viewport={"width": 320, "height": 844}).page
    found = violations(page, *SERIOUS, runOnly=["scrollable-region-focusable"])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [390, 820, 991])
def test_both_menus_have_a_ground_of_their_own_and_a_margin(look, width):
    page = look("book/notation").seen({"width": width, "height": 844}).page
    for side in ("primary", "secondary"):
        page.locator(f".{side}-toggle").click()
        menu = page.locator(f"#pst-{side}-sidebar-modal")
        link = menu.locator("nav a").first
        assert link.is_visible()
        ground = "e => getComputedStyle(e).backgroundColor"
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
            assert menu.evaluate(ground) == page.locator("body").evaluate(ground), "not to be read"
        assert link.bounding_box()["x"] - menu.bounding_box()["x"] >= 12
        found = violations(page, *SERIOUS, within="dialog[open]")
        assert not found, "\n".join(found)
        page.keyboard.press("Escape")
