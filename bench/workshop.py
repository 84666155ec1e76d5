"""A puzzle in the reader's browser against the same work in CPython: the first Run, and one more.

First run, ours: a fresh profile has opened the page and a puzzle; from the click on Run until the
verdict stands, with the fetching of Python and its start. Theirs: `mathlib grade` of the same
program in a fresh process. A run, ours: the same click when Python is there. Theirs: the program
graded in a CPython that has graded it before. `aim_seconds` is what a quiet machine should keep.

The site must be built (`make html`).
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import rounds
from live import ROOT, seconds

PUZZLE = "ring"
AIMS = {"first": 5.0, "again": 2.0}  # seconds
READY = f"#puzzle-{PUZZLE}[data-ready] .cm-content"
RUN = """async (id) => {
    const root = document.getElementById(id);
    const before = root.dataset.runs;
    const began = performance.now();
    root.querySelector('.mlx-actions button').click();
    while (root.dataset.runs === before) await new Promise(requestAnimationFrame);
    return (performance.now() - began) / 1000;
}"""


def clicked(browser: object, address: str, again: int) -> tuple[float, list[float]]:
    """Seconds of the first Run of a fresh profile, and of some more."""
    page = browser.new_context().new_page()
    page.goto(f"{address}#puzzle-{PUZZLE}")
    page.wait_for_selector(READY)
    page.wait_for_load_state("networkidle")
    first, *others = [page.evaluate(RUN, f"puzzle-{PUZZLE}") for _ in range(1 + again)]
    page.context.close()
    return first, others


def rows(quick: bool) -> Iterator[dict]:
    sys.path.insert(0, str(ROOT / "tools"))
    from browser import flags, installed
    from playwright.sync_api import sync_playwright
    from serve import served

    from mathlib.workshop import grade

    text = grade.find(PUZZLE).start
    times = {what: {"browser": [], "CPython": []} for what in AIMS}
    with (
        tempfile.TemporaryDirectory() as folder,
        served(ROOT / "_build/html") as origin,
        sync_playwright() as playwright,
    ):
        file = Path(folder) / f"{PUZZLE}.py"
        file.write_text(text, "utf-8")
        typed = [sys.executable, "-m", "mathlib", "grade", PUZZLE, str(file)]
        browser = playwright.chromium.launch(executable_path=installed(), args=flags())
        for _ in range(2 if quick else 9):
            first, others = clicked(browser, f"{origin}book/workshop.html", 4)
            times["first"]["browser"].append(first)
            times["again"]["browser"] += others
            fresh = seconds(lambda: subprocess.run(typed, cwd=ROOT, capture_output=True))
            times["first"]["CPython"].append(fresh)
            times["again"]["CPython"] += [
                seconds(lambda: grade.graded(PUZZLE, text)) for _ in others
            ]
        browser.close()
    for what, label in (("first", "first run"), ("again", "a run")):
        named = f"{PUZZLE}, {label}"
        yield rounds.row(named, times[what], "browser", "CPython", aim_seconds=AIMS[what])
