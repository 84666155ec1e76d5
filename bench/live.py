"""Experiments in the reader's browser against the same work in CPython: first result and move.

"Ours" is the published page: for the first result from the touch to the picture with everything
fetched, for a move from the control to the picture. "Theirs" is CPython: a fresh process that
imports and draws once; a call that draws. The site must be built (`make html`).
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import rounds

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("04_collectives", "01_compute", "02_memory", "03_autograd", "05_data_parallel")
AIMS = {"first": 2.0, "move": 0.010}  # seconds
FRESH = "import sys; from mathlib.show.experiments import find; find(sys.argv[1]).run()"
FIRST = """async (id) => {
    const root = [...document.querySelectorAll('.mlx')].find((e) => e.dataset.mlx.includes(id));
    const began = performance.now();
    const input = root.querySelector('input, select');
    input.dispatchEvent(new Event(input.type === 'range' ? 'input' : 'change'));
    while (!['live', 'failed'].includes(root.dataset.state))
        await new Promise((next) => setTimeout(next, 2));
    if (root.dataset.state === 'failed') throw new Error(root.textContent);
    return (performance.now() - began) / 1000;
}"""
MOVE = """async ([id, count]) => {
    const root = [...document.querySelectorAll('.mlx')].find((e) => e.dataset.mlx.includes(id));
    const input = root.querySelector('input[type=range]');
    const times = [];
    for (let i = 0; i < count; i++) {
        input.value = +input.min + (i % 5) * +input.step;
        const [began, runs] = [performance.now(), +root.dataset.runs];
        input.dispatchEvent(new Event('input'));
        while (+root.dataset.runs === runs) {
            const { port1, port2 } = new MessageChannel();
            await new Promise((next) => { port1.onmessage = next; port2.postMessage(0); });
        }
        times.push((performance.now() - began) / 1000);
    }
    return times;
}"""


def seconds(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def first_results(browser: object, address: str, id: str, count: int) -> rounds.Times:
    """Each in a fresh profile, in turn with a fresh Python."""

    def ours() -> float:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address, wait_until="networkidle")
        took = page.evaluate(FIRST, f'"id": "{id}"')
        context.close()
        return took

    def theirs() -> float:
        command = [sys.executable, "-c", FRESH, id]
        return seconds(lambda: subprocess.run(command, cwd=ROOT, check=True))

    return rounds.alone({"browser": ours, "CPython": theirs}, count)


def moves(browser: object, address: str, id: str, count: int) -> rounds.Times:
    from mathlib.show.experiments import Range, find

    one = find(id)
    control = next(c for c in one.controls if isinstance(c, Range) or getattr(c, "slider", False))
    values = control.offers()
    page = browser.new_page()
    page.goto(address, wait_until="networkidle")
    page.evaluate(FIRST, f'"id": "{id}"')
    ours = page.evaluate(MOVE, [f'"id": "{id}"', count])
    page.close()
    places = [values[min(i % 5, len(values) - 1)] for i in range(count)]
    theirs = [seconds(partial(one.run, {control.name: value})) for value in places]
    return {"browser": ours, "CPython": theirs}


def rows(quick: bool) -> Iterator[dict]:
    sys.path.insert(0, str(ROOT / "tools"))
    from browser import flags, installed
    from playwright.sync_api import sync_playwright
    from serve import served

    site = ROOT / "_build/html"
    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=flags())
        for name in PAGES:
            address = f"{origin}chapters/{name}.html"
            page = browser.new_page()
            page.goto(address)
            ids = page.eval_on_selector_all(
                ".mlx", "es => es.map(e => JSON.parse(e.dataset.mlx).id)"
            )
            page.close()
            for id in ids:
                for what, measure, count in (
                    ("first", first_results, 2 if quick else 7),
                    ("move", moves, 5 if quick else 40),
                ):
                    times = measure(browser, address, id, count)
                    label = f"{id}, {'first result' if what == 'first' else 'a move'}"
                    aim = AIMS[what]
                    yield rounds.row(label, times, "browser", "CPython", aim_seconds=aim)
        browser.close()
