"""Cells that run in the page: what they need runs first, edited or not; errors, Stop and Reset."""

import json

import cells
import pytest
from axe import SERIOUS, violations
from pages import DESK, PHONE, ROOT, quiet
from patience import PATIENCE

from mathlib.show.cells import answer, needed

PAGE, WAIT = "chapters/planning", 1000 * PATIENCE
CHAPTER = ROOT / f"{PAGE}.ipynb"
CODE, RUNS = cells.sources(CHAPTER), cells.running(ROOT, CHAPTER)
FIRST = next(at for at in RUNS if "print(" in CODE[at])
LATER = next(at for at in RUNS if at > FIRST and (FIRST, "") in needed(CODE, at))
ON_PAGE = """() => {
    const places = [...document.querySelectorAll('.cell_input[id^="cell-"]')];
    const code = (e) => e.querySelector('pre').textContent.trimEnd();
    return places.map((e) => [e.id, code(e), !!e.querySelector('.mlx-run')]);
}"""
LIMIT = """async (limit) => {
    const script = document.querySelector('script[src*="live.mjs"]').src;
    (await import(new URL('asking.mjs', script))).limits.computing = limit;
}"""
ASK = """async (sources, places) => {
    const script = document.querySelector('script[src*="live.mjs"]').src;
    const { run } = await import(new URL('python.mjs', script).href);
    const found = [];
    for (const at of places) found.push(await run('cells', { sources, at }));
    return found;
}"""


@pytest.fixture(scope="module")
def chapter(stay):
    seen = stay(PAGE, viewport=DESK)
    yield seen
    found = seen.page.evaluate("window.violations")
    assert found == seen.complaints == seen.foreign == []


def cell(seen, at):
    return seen.page.locator(f"#cell-{at}")


def shown(seen, at):
    """What stands below a cell, as it is read."""
    return cell(seen, at).locator("xpath=following-sibling::div[contains(@class,'cell_output')]")


def pressed(seen, at):
    """A cell is told to run by the keyboard, and has run."""
    button = cell(seen, at).get_by_role("button", name="Run this cell")
    button.focus()
    button.press("Enter")
    return after(seen, at, 0)


def opened(seen, at):
    """A cell whose editor is open."""
    if not cell(seen, at).get_attribute("data-ready"):
        pressed(seen, at)
    return cell(seen, at)


def after(seen, at, runs):
    seen.page.wait_for_function(
        "([at, n]) => +(document.getElementById(`cell-${at}`).dataset.runs ?? 0) > n",
        arg=[at, runs],
        timeout=WAIT,
    )
    return shown(seen, at).inner_text()


def typed(seen, at, text):
    """What an edited cell shows."""
    before = int(cell(seen, at).get_attribute("data-runs"))
    editor = cell(seen, at).locator(".cm-content")
    editor.fill(text)
    editor.press("Control+Enter")
    return after(seen, at, before)


def printed(at):
    return "".join(line for one in cells.code_cells(CHAPTER)[at]["outputs"] for line in one["text"])


def test_the_page_has_the_code_of_its_notebook_and_a_button_where_it_runs(chapter):
    found = chapter.page.evaluate(ON_PAGE)
    kept = {int(name.removeprefix("cell-")): (code, runs) for name, code, runs in found}
    assert {at for at, (_, runs) in kept.items() if runs} == set(RUNS)
    assert {at: code for at, (code, _) in kept.items()} == {at: CODE[at] for at in kept}
    assert set(kept) >= {i for at in RUNS for i, _ in needed(CODE, at)}
    assert not [r.url for r in chapter.untouched if "editor" in r.url or "cells" in r.url]
    told = chapter.page.locator(".mlx-elsewhere")
    assert told.count() == 1 and "need PyTorch" in told.inner_text()
    assert told.locator("a").get_attribute("href") == "../book/how-to-run.html#on-your-machine"


def test_a_cell_runs_is_edited_fails_and_is_reset(chapter):
    page, own = chapter.goto(PAGE).page, cell(chapter, FIRST)
    before = shown(chapter, FIRST).inner_html()
    assert pressed(chapter, FIRST).strip() == printed(FIRST).strip()
    assert page.evaluate("document.activeElement.classList.contains('cm-content')")
    assert own.locator(".mlx-spoken").text_content().strip() == printed(FIRST).strip()
    assert not own.locator("pre").is_visible()
    assert typed(chapter, FIRST, f"{CODE[FIRST]}\nC *= 4\nround(C / 1e22, 2)").endswith("10.35")
    assert pressed(chapter, LATER) != printed(LATER), "it has the edited cell above it"
    assert "ZeroDivisionError" in typed(chapter, FIRST, "x = 1\n1 / 0")
    assert 'File "this cell", line 2' in shown(chapter, FIRST).inner_text()
    assert "No module named 'torch'" in typed(chapter, FIRST, "import torch")
    own.get_by_role("button", name="Reset").click()
    assert shown(chapter, FIRST).inner_html() == before
    assert own.locator(".cm-content").inner_text().strip() == CODE[FIRST]
    own.locator(".cm-content").press("Control+z")
    assert own.locator(".cm-content").inner_text().strip() != CODE[FIRST], "a slip can be undone"
    own.get_by_role("button", name="Reset").click()
    assert typed(chapter, LATER, CODE[LATER]).strip() == printed(LATER).strip()


def test_what_does_not_end_is_stopped(chapter):
    own = opened(chapter, FIRST)
    chapter.page.evaluate(LIMIT, 1000)
    own.locator(".cm-content").fill("while True: pass")
    own.locator(".cm-content").press("Control+Enter")
    own.get_by_text("Stopped after 1 s: an endless loop?").wait_for(timeout=WAIT)
    chapter.page.evaluate(LIMIT, WAIT)
    own.locator(".cm-content").press("Control+Enter")
    own.get_by_role("button", name="Stop").click()
    own.get_by_text("Stopped.").wait_for(timeout=WAIT)
    chapter.complaints[:] = [c for c in chapter.complaints if not c.startswith("failed: ")]
    assert typed(chapter, FIRST, "print(1)").strip() == "1"


def test_an_open_cell_is_for_everybody_and_not_for_paper(chapter):
    page, _ = chapter.page, opened(chapter, FIRST)
    page.set_viewport_size({"width": 320, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations(page, "moderate", *SERIOUS, within=f".cell:has(#cell-{FIRST})") == []
    page.set_viewport_size(PHONE)
    page.emulate_media(media="print")
    for name in (".mlx-run", ".mlx-open button", ".mlx-keys", ".mlx-elsewhere"):
        assert not any(one.is_visible() for one in page.locator(name).all()), name
    chapter.seen(DESK)


def test_the_page_shows_what_python_shows_here(chapter):
    """Every cell of some chapters: numbers, tables, pictures, what only trials have."""
    for name in ("roofline", "planning", "zero"):
        file = ROOT / f"chapters/{name}.ipynb"
        code, places = json.dumps(cells.sources(file)), cells.running(ROOT, file)
        found = chapter.page.evaluate(f"([code, places]) => ({ASK})(code, places)", [code, places])
        for at, html in zip(places, found, strict=True):
            assert html == answer(code, at), f"{name} {at}"


def test_without_scripts_nothing_offers_to_run(visit):
    page = visit(PAGE, java_script_enabled=False).page
    quiet(page)
    assert page.locator(".mlx-run").count() == 0
    assert not page.locator(".mlx-elsewhere").is_visible()
