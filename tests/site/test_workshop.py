"""The workshop: programs are written, graded, stopped and kept in the page; its verdicts are those
of `mathlib grade`.
"""

import pytest
from axe import SERIOUS, violations
from pages import quiet
from patience import PATIENCE

from mathlib.workshop import grade
from mathlib.workshop.page import answer

PAGE, WAIT = "book/workshop", 1000 * PATIENCE
RING = grade.find("ring")
ENDLESS = (
    "async def program(me, gradient):\n    return sum(range(10**12))\n"  # one step of Python's
)
ASK = """async (programs) => {
    const script = document.querySelector('script[src*="workshop.mjs"]').src;
    const { run } = await import(new URL('python.mjs', script).href);
    const found = [];
    for (const [puzzle, program] of programs)
        found.push(await run('workshop', { puzzle, program }));
    return found;
}"""
LIMIT = """async (limit) => {
    const script = document.querySelector('script[src*="workshop.mjs"]').src;
    (await import(new URL('asking.mjs', script))).limits.computing = limit;
}"""
RAPID = """() => {
    const [run, stop] = [...document.querySelectorAll('#puzzle-ring .mlx-actions button')];
    return (async () => {
        for (let i = 0; i < 200; i += 1) {
            run.click();
            stop.click();
            await new Promise((next) => setTimeout(next));
        }
    })();
}"""


@pytest.fixture(scope="module")
def shop(stay):
    """The page under the strict policy, with the ring opened by its address."""
    seen = stay(PAGE, viewport={"width": 1280, "height": 900})
    assert not asked(seen, "editor.mjs", "pyodide"), "nobody has opened anything"
    opened(seen)
    yield seen
    found = seen.page.evaluate("window.violations")
    assert found == seen.complaints == seen.foreign == []


def asked(seen, *words):
    return [r.url for r in seen.finished if any(word in r.url for word in words)]


def opened(seen):
    seen.page.goto(f"{seen.origin}{PAGE}.html#puzzle-ring")
    quiet(seen.page)
    seen.page.locator("#puzzle-ring[data-ready] .cm-content").wait_for()


def ring(seen):
    return seen.page.locator("#puzzle-ring")


def runs(seen):
    return int(ring(seen).get_attribute("data-runs") or 0)


def ran(seen, text):
    """What is said of a program, typed and run by the keyboard."""
    before, editor = runs(seen), ring(seen).locator(".cm-content")
    editor.fill(text)
    editor.press("Control+Enter")
    seen.page.wait_for_function(
        "n => +(document.getElementById('puzzle-ring').dataset.runs ?? 0) > n",
        arg=before,
        timeout=WAIT,
    )
    return ring(seen).locator(".mlx-say").inner_text()


def test_a_program_is_graded_kept_reset_and_saved(shop):
    page = shop.page
    assert page.locator(".mlx-puzzle[open]").count() == 1
    editor, start = ring(shop).locator(".cm-content"), RING.start
    assert "rank 0 still has its own gradient" in ran(shop, start)
    assert shop.page.locator(".mlx-output svg").first.is_visible()
    assert page.locator(".mlx-progress").inner_text().startswith("0 of ")
    assert ran(shop, RING.solution) == "Right: every test passes."
    assert page.locator(".mlx-progress").inner_text() == f"1 of {len(grade.names())} solved."
    assert "solved" in ring(shop).locator("summary").first.inner_text()
    assert ring(shop).locator(".mlx-spoken").text_content() == "Right: every test passes."
    page.reload()
    opened(shop)
    assert page.locator(".mlx-progress").inner_text().startswith("1 of ")
    with page.expect_download() as saved:
        ring(shop).get_by_role("button", name="Save as ring.py").click()
    assert saved.value.path().read_text("utf-8") == RING.solution
    ring(shop).get_by_role("button", name="Reset").click()
    assert editor.inner_text().strip() == start.strip()
    editor.press("Control+z")
    assert "for step in range(1, N)" in editor.inner_text(), "a slip is not the end of one's work"
    editor.press("Tab")
    assert page.evaluate("document.activeElement.classList.contains('cm-content')")
    editor.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run"
    assert editor.get_attribute("aria-label") == "Program for Ring all-reduce"


def test_the_page_says_of_every_puzzle_what_python_says_here(shop):
    programs = [(p.name, text) for p in grade.every() for text in (p.start, p.solution)]
    programs += [("ring", text) for text in ("x = 1 +", "", "while True: pass")]
    found = shop.page.evaluate(ASK, programs)
    for (name, text), html in zip(programs, found, strict=True):
        assert html == answer(name, text), f"{name}: {text}"


def test_an_open_puzzle_with_its_result_is_for_everybody(shop):
    ran(shop, RING.start)
    shop.page.set_viewport_size({"width": 320, "height": 800})
    assert shop.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations(shop.page, "moderate", *SERIOUS, within="#puzzle-ring") == []


def test_what_does_not_end_is_stopped_and_no_worker_stays(shop):
    shop.page.evaluate(LIMIT, 1000)
    editor, status = ring(shop).locator(".cm-content"), ring(shop).locator(".mlx-status")
    editor.fill(ENDLESS)
    editor.press("Control+Enter")
    status.get_by_text("Stopped after 1 s: an endless loop?").wait_for(timeout=WAIT)
    nobody_works(shop)
    shop.page.evaluate(LIMIT, WAIT)
    shop.page.evaluate(RAPID)
    assert status.inner_text() == "Stopped."
    nobody_works(shop)
    shop.complaints[:] = [c for c in shop.complaints if not c.startswith("failed: ")]  # on its way
    assert ran(shop, RING.solution) == "Right: every test passes."
    assert len(shop.page.workers) == 1


def nobody_works(seen):
    """A worker that was told to end is gone soon."""
    for _ in range(PATIENCE):
        if not seen.page.workers:
            return
        seen.page.wait_for_timeout(100)
    raise AssertionError(seen.page.workers)


def test_what_is_kept_cannot_break_the_page(visit):
    broken = "localStorage.setItem('mlx-workshop.ring', '{');"
    seen = visit(PAGE, script=broken)
    opened(seen)
    assert ring(seen).locator(".cm-content").inner_text().strip() == RING.start.strip()
    assert seen.complaints == []


def test_a_chapter_asks_for_nothing_of_the_workshop(look):
    assert asked(look("chapters/collectives"), "workshop", "editor") == []


def test_without_scripts_a_task_is_whole(visit):
    one = visit(PAGE, java_script_enabled=False).page.locator("#puzzle-ring")
    one.locator("summary").first.click()
    assert one.locator("pre").inner_text().strip() == RING.start.strip()
    assert RING.sentences[0] in one.inner_text()
    assert one.locator("button").count() == 0
