"""What the reader sees while Python comes, when it does not, and when it comes late."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import quiet, toc_pages
from playwright.sync_api import Page, Route

from mathlib.checks import InputError
from mathlib.show.experiments import registry
from mathlib.show.prediction import guessed, judge

CHAPTER = "chapters/collectives"  # several experiments on one page
ENDED = "root => ['live', 'failed'].includes(root.dataset.state)"
HEAVY = re.compile(r"/(pyodide|live|answers)-[0-9a-f]+/.*(packed|pyodide)")
PYTHON = re.compile(r"wasm\.packed$")
FILES = re.compile(r"/(pyodide|live)-[0-9a-f]+/.*\.packed$")  # all that are counted


def first(page: Page, which: int = 0):
    return page.locator(".mlx").nth(which)


def move(page: Page, which: int = 0) -> None:
    first(page, which).locator("input[type=range]").first.focus()
    page.keyboard.press("ArrowRight")


def move_another(page: Page, which: int = 0) -> None:
    """Together with `move` a setting that did not come with the site."""
    first(page, which).locator("input[type=range]").nth(1).focus()
    page.keyboard.press("ArrowRight")


def result(page: Page, which: int = 0) -> str:
    return first(page, which).locator(".mlx-output").inner_html()


def ended(page: Page, which: int = 0) -> str:
    root = first(page, which)
    page.wait_for_function(ENDED, arg=root.element_handle(), timeout=60_000)
    return root.get_attribute("data-state")


def said(page: Page, which: int = 0) -> str:
    return first(page, which).locator(".mlx-status").text_content()


def let_go(page: Page, held: list[Route], answer: Callable[[Route], None]) -> None:
    """What was held is answered, and so is what the page asks for later."""
    page.context.route(PYTHON, answer)
    for route in held:
        answer(route)


def open_with(visit, answer: Callable[[Route], None], name: str = HEAVY) -> Page:
    """The chapter, where requests for heavy files are answered by `answer`."""
    page = visit(CHAPTER).page
    page.context.route(name, answer)
    return page


def test_the_price_is_told_before_anything_starts(look):
    page = look(CHAPTER).page
    assert re.search(r"Python, \d\.\d MB, starts when you reach for a control", said(page))


def test_who_only_passes_by_starts_nothing(visit):
    seen = visit(CHAPTER)
    page = seen.page
    for root in page.locator(".mlx").all():
        for control in root.locator("input, select, summary, button").all():
            control.focus()
            page.keyboard.press("Tab")
    assert page.locator(".mlx[data-state=stored]").count() == page.locator(".mlx").count()
    assert not [r.url for r in seen.finished if HEAVY.search(r.url)]


def test_a_mouse_that_rests_on_a_control_starts_python_and_one_that_passes_does_not(visit):
    seen = visit(CHAPTER)
    page, slider = seen.page, first(seen.page).locator("input[type=range]").first
    slider.evaluate(
        """slider => {
            const over = { pointerType: 'mouse', bubbles: true };
            slider.dispatchEvent(new PointerEvent('pointerover', over));
            slider.closest('.mlx-controls').dispatchEvent(new PointerEvent('pointerleave', over));
        }"""
    )
    page.wait_for_timeout(1000)
    assert not [r.url for r in seen.finished if HEAVY.search(r.url)]
    with page.expect_worker():
        slider.hover()
    assert first(page).get_attribute("data-state") == "stored", "the page says nothing of it"
    move(page)
    assert ended(page) == "live"
    assert len([r for r in seen.finished if r.url.endswith("wasm.packed")]) == 1


def test_one_control_moves_before_python_is_there(visit):
    """The build has computed where it can go; what it has not waits for Python."""
    held = []
    page = visit(CHAPTER).page
    page.context.route(PYTHON, lambda route: held.append(route))
    one = registry()[first(page).evaluate("e => JSON.parse(e.dataset.mlx).id")]
    control = next(c for c in one.controls if c.spec()["kind"] in ("range", "slider"))
    slider = first(page).locator("input[type=range]").first
    slider.focus()
    for key in ("ArrowRight", "ArrowLeft", "End", "Home"):
        before = result(page)
        page.keyboard.press(key)
        page.wait_for_function(
            "old => document.querySelector('.mlx-output').innerHTML !== old", arg=before
        )
        assert first(page).get_attribute("data-state") == "starting"
        assert first(page).locator(".mlx-old").text_content() == ""
    assert "This answer came with the page" in said(page)
    lowest = one.page({control.name: control.offers()[0]})
    sentence = re.search(r'<p class="mlx-say">(.*?)</p>', lowest, re.DOTALL)[1]
    sentence = sentence.replace("\u00a0", "&nbsp;")  # as a browser writes it
    assert first(page).locator(".mlx-say").first.inner_html() == sentence
    let_go(page, held, lambda route: route.continue_())
    assert ended(page) == "live"
    assert first(page).locator(".mlx-say").first.inner_html() == sentence


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_result_that_is_still_the_old_one_says_so_beside_itself(visit, theme):
    held = []
    page = visit(CHAPTER, color_scheme=theme).page
    page.context.route(PYTHON, lambda route: held.append(route))
    root, said = first(page), first(page).locator(".mlx-old")
    assert (said.get_attribute("role"), said.text_content()) == ("status", "")
    move(page)
    move_another(page)
    page.wait_for_function("document.querySelector('.mlx-old').textContent !== ''")
    assert "still the old result" in said.text_content()
    assert said.locator("span").is_visible()
    word, old = said.locator("span").bounding_box(), root.locator(".mlx-output").bounding_box()
    assert old["x"] <= word["x"] and old["y"] <= word["y"]
    controls = root.locator(".mlx-held").bounding_box()
    assert abs(word["y"] + word["height"] - controls["y"]) < 3, "next to the controls"
    assert said.bounding_box()["height"] == 0, "the slider moves away under the finger"
    look = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    ink, paper = (rgb(text) for text in said.locator("span").evaluate(look))
    assert (sum(ink) < sum(paper)) == (theme == "light") and abs(sum(ink) - sum(paper)) > 300
    assert float(root.locator(".mlx-output").evaluate("e => getComputedStyle(e).opacity")) < 1
    let_go(page, held, lambda route: route.continue_())
    assert ended(page) == "live"
    assert said.text_content() == "" and not root.get_attribute("data-old")


def test_a_slow_answer_says_that_the_result_is_the_old_one(visit):
    """Python is running and does not answer: the page says so, until it does."""
    page = visit(CHAPTER).page
    page.evaluate(
        """() => {
            const post = Worker.prototype.postMessage, waiting = [];
            const root = document.querySelector('.mlx'); // all waits once it is live
            Worker.prototype.postMessage = function (...given) {
                if (root.dataset.runs) waiting.push(() => post.apply(this, given));
                else post.apply(this, given);
            };
            window.answer = () => { while (waiting.length) waiting.shift()(); };
        }"""
    )
    move(page)
    assert ended(page) == "live"
    move_another(page)
    page.wait_for_function(
        "document.querySelector('.mlx-old').textContent.includes('still the old')"
    )
    page.wait_for_function(
        """() => {
            window.answer();
            return document.querySelector('.mlx-old').textContent === '';
        }"""
    )
    assert first(page).get_attribute("data-runs") == "2"


def rgb(text: str) -> list[float]:
    return [float(part) for part in re.findall(r"[\d.]+", text)[:3]]


def swipe(page: Page, box: dict, dx: int, dy: int) -> None:
    """A finger put on the middle of a slider and drawn so far."""
    session = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2
    point = {"x": x, "y": y}
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    for part in range(1, 9):
        point = {"x": x + dx * part / 8, "y": y + dy * part / 8}
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        page.evaluate("new Promise(requestAnimationFrame)")
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


STILL = """async () => {
    for (let y = NaN, since = 0; since < 20; since += 1) {
        if (y !== scrollY) [y, since] = [scrollY, 0];
        await new Promise(requestAnimationFrame);
    }
}"""


def test_a_finger_that_scrolls_past_starts_nothing_and_one_that_moves_does(visit):
    page = visit(CHAPTER, viewport={"width": 390, "height": 844}, has_touch=True).page
    slider = first(page).locator("input[type=range]").first
    slider.evaluate("e => e.scrollIntoView({ block: 'center' })")
    before = slider.input_value()
    swipe(page, slider.bounding_box(), 0, -200)
    assert slider.input_value() == before
    assert first(page).get_attribute("data-state") == "stored"
    slider.evaluate("e => e.scrollIntoView({ block: 'center' })")
    page.evaluate(STILL)  # what was thrown rolls on for a while
    swipe(page, slider.bounding_box(), -40, 0)
    assert slider.input_value() != before
    assert ended(page) == "live"


def test_the_download_is_counted(visit):
    """Each file is let through by itself: what is said then is the share of what has come."""
    held = {}
    page = visit(CHAPTER).page
    page.context.route(FILES, lambda route: held.update({Path(route.request.url).stem: route}))
    move(page)
    sizes, got, total = page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const told = await import(new URL('runtime.mjs', script).href);
            const sizes = Object.entries(told.packed).map(([name, { size }]) => [name, size]);
            return [sizes, told.scripts, told.download];
        }"""
    )
    sizes = {name.removesuffix(".files"): size for name, size in sizes}
    assert total == got + sum(sizes.values())
    assert f"Python, {total / 1e6:.1f} MB" in said(page, 1), "the price that was told"
    for name, size in sorted(sizes.items(), key=lambda one: one[1]):
        while name not in held:
            page.wait_for_timeout(10)
        got += size
        told = f"{got / 1e6:.1f} of {total / 1e6:.1f} MB, {100 * got // total}%"
        held[name].continue_()
        if got < total:
            page.get_by_text(told).wait_for()
    assert ended(page) == "live"
    assert page.locator(".mlx-loading").count() == 0, "it goes when it is done"


def test_no_connection_at_the_first_touch_can_be_tried_again(visit):
    page = visit(CHAPTER).page
    page.context.set_offline(True)
    move(page)
    assert ended(page) == "failed"
    assert "no connection" in said(page)
    page.context.set_offline(False)
    move(page, 1)
    assert ended(page, 1) == "live", "the neighbour was dead"
    first(page).get_by_role("button", name="Try again").click()
    page.wait_for_function("document.querySelector('.mlx').dataset.state === 'live'")


@pytest.mark.parametrize(
    "file", ["pyodide.asm.wasm", "python_stdlib.zip", "mathlib", "pyodide.mjs"]
)
def test_a_missing_file_is_named_at_once(visit, file):
    page = open_with(visit, lambda r: r.fulfill(status=404), re.compile(rf"/{file}[^/]*$"))
    move(page)
    assert ended(page) == "failed"
    assert file in said(page) and "object" not in said(page)


def test_controls_agree_with_the_result_after_a_failure(visit):
    page = open_with(visit, lambda route: route.abort())
    slider = first(page).locator("input[type=range]").first
    before, stored = slider.input_value(), result(page)
    move(page)
    assert ended(page) == "failed"
    assert slider.input_value() == before and result(page) == stored


def test_what_came_with_the_site_stays_when_python_does_not_come(visit):
    held = []
    page = open_with(visit, lambda route: held.append(route), PYTHON)
    slider = first(page).locator("input[type=range]").first
    before, stored = slider.input_value(), result(page)
    move(page)
    page.wait_for_function(
        "old => document.querySelector('.mlx-output').innerHTML !== old", arg=stored
    )
    let_go(page, held, lambda route: route.abort())
    assert ended(page) == "failed"
    assert slider.input_value() != before and result(page) != stored


def test_only_silence_counts_as_failure_and_a_late_answer_harms_nothing(visit):
    """A file that never comes: after the silence allowed, it is said; what comes later is
    dropped.
    """
    late = []
    seen = visit(CHAPTER)
    page = seen.page
    page.context.route(re.compile(r"wasm\.packed$"), lambda route: late.append(route))
    page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { limits } = await import(new URL('python.mjs', script).href);
            limits.silence = 3000;
        }"""
    )
    move(page)
    assert ended(page) == "failed"
    assert "nothing came for 3 seconds" in said(page)
    for route in late:
        route.abort()
    page.context.unroute_all()
    move(page, 1)
    assert not [c for c in seen.complaints if c.startswith("uncaught")]


def test_settings_live_in_the_address(visit):
    seen = visit(CHAPTER)
    page = seen.page
    move(page)
    assert ended(page) == "live"
    page.wait_for_function("location.search !== ''")
    slider = first(page).locator("input[type=range]").first
    value, address = slider.input_value(), page.url
    assert urlsplit(address).fragment.startswith("experiment-")
    assert first(page).locator("a.mlx-link").evaluate("e => e.href") == address
    result = first(page).locator(".mlx-output").inner_html()
    page.reload()
    quiet(page)
    assert ended(page) == "live"
    assert slider.input_value() == value
    assert first(page).locator(".mlx-output").inner_html() == result
    page.goto(re.sub(r"=[^&#]*", "=nonsense", address))
    quiet(page)
    page.reload()
    quiet(page)
    assert first(page).get_attribute("data-state") == "stored", "a value that is none is ignored"


def test_back_without_the_page_cache_controls_agree_with_the_result(visit):
    """Chromium puts what was typed back into controls; the result would still be the first one."""
    seen = visit(CHAPTER)
    page = seen.page
    move(page)
    assert ended(page) == "live"
    page.goto(f"{seen.origin}{toc_pages()[-1]}.html")
    quiet(page)
    page.go_back()
    quiet(page)
    page.wait_for_function("document.querySelector('.mlx').dataset.state !== 'starting'")
    root = first(page)
    spec = root.evaluate("root => JSON.parse(root.dataset.mlx)")
    shown = {c["name"]: c["default"] for c in spec["controls"]}
    asked = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    for name, value in asked.items():
        shown[name.partition(".")[2]] = type(shown[name.partition(".")[2]])(value)
    say = re.search(r'<p class="mlx-say">(.*?)</p>', registry()[spec["id"]].page(shown))[1]
    assert root.locator(".mlx-output .mlx-say").first.inner_html() == say.replace(
        "\u00a0", "&nbsp;"
    )
    slider = root.locator("input[type=range]").first
    assert float(slider.input_value()) == shown[spec["controls"][0]["name"]]


def in_page(page: Page, call: str, cases: list) -> list:
    """What a function of predict.mjs answers to each case."""
    return page.evaluate(
        f"""async (cases) => {{
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const {{ {call} }} = await import(new URL('predict.mjs', script).href);
            return cases.map((given) => {call}(...given));
        }}""",
        cases,
    )


def test_a_guess_is_read_as_a_notebook_reads_it(look):
    numbers = ["2,5", "1,000", "1,234,567.5", "1 000", "3e9", "-0,5", "−4", "+.5", "1e-300", "5."]
    none = ["1,00,0", "", "1,5,2", "many", "nan", "Infinity", "inf", "1e999", "0x10", "1_0", "٣"]
    tails, units = ["", "%", " %", " GB", "million FLOP", "$"], ["", "%", "GB", "million FLOP", "s"]
    cases = [(n + t, unit) for n in numbers + none for t in tails for unit in units]
    assert in_page(look(CHAPTER).page, "guessed", cases) == [read(*case) for case in cases]
    assert read("14 %", "%") == 14 and "million FLOP" in read("5%", "million FLOP")


def read(typed: str, unit: str) -> float | str:
    try:
        return guessed(typed, unit)
    except InputError as refusal:
        return str(refusal)


def test_a_guess_is_judged_as_a_notebook_judges_it(look):
    sizes = [0, 1, 3, 7.5, 0.1 + 0.2, 12.346, 999.5, 12345, 123456.7, 999999.9, 1e6, 2.5e9, 1e300]
    sizes += [0.001, 0.000999999, 1e-7, 1e-300, 5e-324]
    sizes += [-size for size in sizes[1:]]
    cases = [(a, b, unit, "computed") for a in sizes for b in sizes for unit in ("", "%", "GB")]
    told = in_page(look(CHAPTER).page, "judge", cases)
    for case, words in zip(cases, told, strict=True):
        assert words == judge(*case), case
        assert len(words) < 90


def test_a_guess_with_another_unit_is_refused_in_a_line(visit):
    question = visit("chapters/compute").page.locator('[data-predict*="million FLOP"]').first
    question.locator("input").fill("5%")
    question.locator("button").click()
    assert question.locator("[role=status]").inner_text().endswith("alone or with million FLOP.")
    assert not question.locator("dd").first.is_visible()


def test_far_off_guesses_are_told_in_readable_numbers(visit):
    page = visit(CHAPTER).page
    question = page.locator(".mlx-predict").first
    measured = question.evaluate("q => JSON.parse(q.dataset.predict).measured")
    question.locator("input").fill(str(measured * 1e6))
    question.locator("button").click()
    assert "10⁶ times" in question.locator("[role=status]").inner_text()
