"""What the strict policy forbids is nowhere; and what axe says of pages, when all that can open is
open and all that can live is live.
"""

import json
import re
from html import unescape

import pytest
from axe import SERIOUS, violations
from pages import PREFIX, SITE, policy, quiet, toc_pages
from serve import served

from mathlib.show.experiments import find

EVENTS = re.compile(r"<[a-zA-Z][^<>]*\son[a-z]+=")
CLICK = "all => all.filter((e) => e.checkVisibility()).forEach((e) => e.click())"


def test_the_policy_is_strict():
    rules = dict(rule.strip().split(" ", 1) for rule in policy().split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    for kind, sources in rules.items():
        assert not re.search(r"https?:|\*", sources), f"{kind} lets somebody else in"


def test_no_page_holds_a_script_or_a_handler():
    for path in SITE.rglob("*.html"):
        if "_static" in path.parts:
            continue
        text = path.read_text("utf-8")
        for script in re.findall(r"<script[^>]*>", text):
            assert " src=" in script, f"{path.name}: {script}"
        assert not EVENTS.search(text), f"{path.name}: {EVENTS.search(text)[0][-80:]}"
        assert "javascript:" not in text, path


def kept(seen) -> bool:
    return seen.page.evaluate("window.violations") == seen.complaints == seen.foreign == []


def use_the_tools(page) -> None:
    """Light and dark once round, and everything that unfolds."""
    mode = "document.documentElement.dataset.mode"
    modes = [page.evaluate(mode)]
    while len(modes) == 1 or modes[-1] != modes[0]:
        page.locator(".theme-switch-button:visible").first.click()
        modes.append(page.evaluate(mode))
        assert modes[-1] != modes[-2]
    page.locator("article details:not([open]) > summary, .toggle-button").evaluate_all(CLICK)
    page.mouse.move(0, 0)  # the button's tooltip goes
    page.evaluate("document.activeElement.blur()")
    page.wait_for_selector(".tooltip", state="detached")


def bring_to_life(page) -> None:
    """Every experiment live, every question answered."""
    for root in page.locator(".mlx").all():
        root.locator("input[type=range], select").first.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")  # the one or the other moves, wherever it stood
        page.wait_for_function(
            "root => ['live', 'failed'].includes(root.dataset.state)",
            arg=root.element_handle(),
            timeout=60_000,
        )
        assert root.get_attribute("data-state") == "live", root.locator(
            ".mlx-status"
        ).text_content()
    for question in page.locator(".mlx-predict").all():
        question.locator("input").fill("12")
        question.locator("button").click()
        assert question.locator("dd").first.is_visible()


@pytest.mark.parametrize("page_once", [*toc_pages(), "search", "genindex"], indirect=True)
def test_all_of_a_page_works_under_the_policy_and_axe_finds_nothing_then(alive):
    """Everything open, live and answered at once, in light and in dark."""
    page = alive.page
    assert page.evaluate("DOCUMENTATION_OPTIONS.pagename") == alive.name
    use_the_tools(page)
    bring_to_life(page)
    assert kept(alive), (page.evaluate("window.violations"), alive.complaints, alive.foreign)
    for python in page.workers:
        python.evaluate("() => close()")  # it computes ahead, which takes time from axe
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # what rested is laid out again
    found = violations(page, "moderate", *SERIOUS, preload=False)
    assert not found, "\n".join(found)


def test_the_page_for_what_is_not_there_keeps_the_policy(visit, strict):
    assert kept(visit("404", strict))


def test_search_finds_under_the_policy(visit, strict):
    seen = visit("search", strict)
    seen.page.goto(f"{strict}search.html?q=memory")
    quiet(seen.page)
    assert seen.page.locator("#mlx-results li").count() > 3
    seen.page.locator("#mlx-results li a").first.click()
    quiet(seen.page)
    assert kept(seen)


@pytest.mark.parametrize("name", ["chapters/collectives", "book/plan"])
@pytest.mark.parametrize("how", ["blocked by the policy", "no WebAssembly"])
def test_without_webassembly_what_came_with_the_site_can_still_be_used(chromium, name, how):
    """The same policy without 'wasm-unsafe-eval', or a browser without any: what is stored is
    shown, of all else the page says in a line that it stays as it was.
    """
    less = policy().replace(" 'wasm-unsafe-eval'", "")
    with served(SITE, PREFIX, policy=less if "policy" in how else policy()) as origin:
        page = chromium.new_page()
        if "policy" not in how:
            page.add_init_script("delete window.WebAssembly;")
        page.goto(f"{origin}{name}.html")
        quiet(page)
        root, one = page.locator(".mlx").first, {}
        spec = json.loads(root.get_attribute("data-mlx"))
        start = root.locator(".mlx-say").first.text_content()
        sliders = [c["name"] for c in spec["controls"] if c["kind"] in ("range", "slider")]
        for i, key, told in (
            (0, "ArrowRight", "This answer came with the page."),
            (1, "ArrowRight", "No answer to that came with the page, so the last one stays."),
            (0, "ArrowRight", "This answer came with the page."),
        ):
            slider = root.locator("input[type=range]").nth(i)
            control = next(c for c in find(spec["id"]).controls if c.name == sliders[i])
            before = slider.input_value()
            slider.press(key)
            page.wait_for_function(
                """([told, how]) => document.querySelector('.mlx').dataset.state === 'failed'
                    && document.querySelector('.mlx .mlx-status').textContent.startsWith(told)
                    && document.querySelector('.mlx .mlx-status').textContent.includes(how)""",
                arg=[told, how],
            )
            if told.startswith("This"):
                values = control.offers()
                place = values.index(one.get(control.name, control.default))
                one[control.name] = values[place + 1]
            else:
                assert slider.input_value() == before, "it goes back to what is shown"
            said = re.search(r'<p class="mlx-say">(.*?)</p>', find(spec["id"]).page(one), re.S)[1]
            words = unescape(re.sub(r"<[^>]+>", "", said))
            assert root.locator(".mlx-say").first.text_content() == words
        assert not page.locator(".mlx :is(input, select, textarea, button):disabled").count()
        root.get_by_role("button", name="Back to the start").click()
        page.wait_for_function(
            "old => document.querySelector('.mlx-say').textContent === old", arg=start
        )
        page.close()
