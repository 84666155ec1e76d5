"""Experiments in the reader's browser against the same work in CPython: first result and move.

First result, ours: a fresh profile has opened the page; from the first move of a control until
the new picture stands in the page, fetched from a server on this machine with the answers that the
build has computed. Python live, ours: from the same move until Python itself has answered, so with
the fetching of Python, its start in a worker, one run, and the picture put in. Theirs: a fresh
CPython that imports the library and runs the experiment once.

A move, ours: Python is live; from the event of the first slider until the new picture stands in
the page, with style and layout and without painting. The slider goes through all its values,
again and again, one a frame, which is as often as a browser tells of a hand that drags it: what
came with the site, was computed ahead, or was shown before, the page has at hand. A move
elsewhere: the second slider has been set to its end before, so that nothing came with the site.
Theirs: the same call with the same value in a CPython that has run it before, right after.

A change, ours: the page that plans a run is live; from the event of the slider of tokens, after
which all layouts are searched anew, until the new answer stands in the page. The slider has more
values than the page remembers answers. Theirs: the same call in CPython. `layouts` is how many
were searched each time, at least. A paste, ours: a fresh profile; the field of a config.json has
had the focus for a second, in which Python has begun to start; from the paste until the answer to
it stands in the page. Theirs: a fresh CPython with the same text.

The ratio is theirs / ours, a share below one that should not sink; `aim_seconds` is what a quiet
machine should keep (2 s, 10 ms, 1 s for 10,000 layouts). The site must be built (`make html`).
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import rounds

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("book/index", *(f"chapters/{f.stem}" for f in sorted(ROOT.glob("chapters/*.ipynb"))))
AIMS = {"first": 2.0, "live": 2.0, "move": 0.010, "elsewhere": 0.010, "change": 1.0}  # seconds
LABELS = {"first": "first result", "live": "Python live", "move": "a move"}
LABELS["elsewhere"] = "a move elsewhere"
PLAN = "book/plan"  # where a change is a search
LAYOUTS = re.compile(r"([\d,]+) layouts were tried")
FRESH = "import sys; from mathlib.show.experiments import find; find(sys.argv[1]).run()"
FRESH_PASTE = FRESH.replace("sys.argv[1]).run()", "'plan').run({'config': sys.argv[1]})")
REST = 1000  # milliseconds that the field has the focus before somebody pastes
FIRST = """async (id) => {
    const root = [...document.querySelectorAll('.mlx')].find((e) => e.dataset.mlx.includes(id));
    const began = performance.now();
    const input = root.querySelector('.mlx-controls :is(input:not([list]), select)');
    const output = root.querySelector('.mlx-output');
    const drawn = new Promise((next) => {
        new MutationObserver(next).observe(output, { childList: true });
    });
    if (input.matches('select')) input.selectedIndex = input.selectedIndex ? 0 : 1;
    else if (input.matches('[type=checkbox]')) input.checked = !input.checked;
    else if (input.matches('[type=range]'))
        input.value = input.value === input.max ? input.min : input.max;
    else input.value = input.value.slice(1);
    const changes = input.matches('select, [type=checkbox]');
    input.dispatchEvent(new Event(changes ? 'change' : 'input'));
    await drawn;
    root.getBoundingClientRect();  // style and layout are done
    const first = performance.now() - began;
    while (!['live', 'failed'].includes(root.dataset.state))
        await new Promise((next) => setTimeout(next, 2));
    if (root.dataset.state === 'failed') throw new Error(root.textContent);
    return [first / 1000, (performance.now() - began) / 1000];
}"""
PASTE = """async ([config, rest]) => {
    const root = document.querySelector('.mlx');
    const input = root.querySelector('textarea');
    input.focus();
    await new Promise((next) => setTimeout(next, rest));
    const began = performance.now();
    input.value = config;
    input.dispatchEvent(new Event('input'));
    while (!['live', 'failed'].includes(root.dataset.state))
        await new Promise((next) => setTimeout(next, 2));
    if (root.dataset.state === 'failed') throw new Error(root.textContent);
    return (performance.now() - began) / 1000;
}"""
MOVE = """async ([id, count, control, elsewhere]) => {
    const root = [...document.querySelectorAll('.mlx')].find((e) => e.dataset.mlx.includes(id));
    const [input, another] = root.querySelectorAll(control);
    root.querySelector('.mlx-actions button').click();  // back to the start
    if (elsewhere) {
        another.value = another.value === another.max ? another.min : another.max;
        another.dispatchEvent(new Event('input'));
    }
    await new Promise((next) => setTimeout(next, 1000));
    const values = 1 + Math.round((input.max - input.min) / input.step);
    const times = [];
    for (let i = 0; i < count; i++) {
        await new Promise((next) => requestAnimationFrame(() => setTimeout(next))); // painted
        input.value = +input.min + (i % values) * +input.step;
        const began = performance.now();
        const done = new Promise((next) => {
            const watch = new MutationObserver(() => { watch.disconnect(); next(); });
            watch.observe(root, { attributeFilter: ['data-runs'] });
        });
        input.dispatchEvent(new Event('input'));
        await done;
        root.getBoundingClientRect();  // style and layout are done
        times.push((performance.now() - began) / 1000);
    }
    return times;
}"""


def seconds(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def opened(browser: object, address: str) -> object:
    """The page in a profile of its own, its experiments waiting for a touch."""
    page = browser.new_context().new_page()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_selector(".mlx[data-state=stored]")
    return page


def first_results(browser: object, address: str, id: str, count: int) -> dict[str, rounds.Times]:
    """First result and Python live of the same touch, each time in a fresh profile, in turn with a
    fresh Python.
    """
    command = [sys.executable, "-c", FRESH, id]
    times = {what: {"browser": [], "CPython": []} for what in ("first", "live")}
    for _ in range(count):
        page = opened(browser, address)
        ours = page.evaluate(FIRST, f'"id": "{id}"')
        page.context.close()
        theirs = seconds(lambda: subprocess.run(command, cwd=ROOT, check=True))
        for what, took in zip(times, ours, strict=True):
            times[what]["browser"].append(took)
            times[what]["CPython"].append(theirs)
    return times


def sliders(id: str) -> list:
    """Its controls that are sliders."""
    from mathlib.show.experiments import Range, find

    return [c for c in find(id).controls if isinstance(c, Range) or getattr(c, "slider", False)]


def moves(
    browser: object, address: str, id: str, count: int, elsewhere: bool = False
) -> rounds.Times:
    from mathlib.show.experiments import find

    one, control, *others = find(id), *sliders(id)
    values = control.offers()
    page = opened(browser, address)
    page.evaluate(FIRST, f'"id": "{id}"')
    ours = page.evaluate(MOVE, [f'"id": "{id}"', count, "input[type=range]", elsewhere])
    page.context.close()
    given = {}
    if elsewhere:
        first, last = others[0].offers()[0], others[0].offers()[-1]
        given = {others[0].name: first if others[0].default == last else last}
    one.run()
    settings = [{**given, control.name: values[i % len(values)]} for i in range(count)]
    return {"browser": ours, "CPython": [seconds(partial(one.run, s)) for s in settings]}


def changed() -> tuple[int, list[dict]]:
    """The place of the control of tokens among those of the plan, and each of its values."""
    from mathlib.show.experiments import find

    controls = find("plan").controls
    place = next(i for i, control in enumerate(controls) if control.name == "tokens")
    return place, [{"tokens": value} for value in controls[place].offers()]


def searched(html: str) -> int:
    """How many layouts an answer is of."""
    found = LAYOUTS.search(html)
    return int(found[1].replace(",", "")) if found else 0


def changes(browser: object, address: str, count: int) -> tuple[rounds.Times, int]:
    """Seconds of each change, and the fewest layouts of any."""
    from mathlib.show.experiments import find

    one, (place, values) = find("plan"), changed()
    page = opened(browser, address)
    page.evaluate(FIRST, '"id": "plan"')
    ours = page.evaluate(MOVE, ['"id": "plan"', count, f'[id$="-{place}"]', False])
    page.context.close()
    one.run()
    asked = [values[i % len(values)] for i in range(count)]
    fewest = min(searched(one.run(value)) for value in values)
    theirs = [seconds(partial(one.run, value)) for value in asked]
    return {"browser": ours, "CPython": theirs}, fewest


def pasted(browser: object, address: str, count: int) -> rounds.Times:
    """A config.json as the first thing that a reader does, in turn with a fresh Python."""
    shape = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    shape |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
    config = json.dumps({"model_type": "llama", "max_position_embeddings": 131072, **shape})
    command = [sys.executable, "-c", FRESH_PASTE, config]

    def ours() -> float:
        page = opened(browser, address)
        took = page.evaluate(PASTE, [config, REST])
        page.context.close()
        return took

    def theirs() -> float:
        return seconds(lambda: subprocess.run(command, cwd=ROOT, check=True))

    return rounds.alone({"browser": ours, "CPython": theirs}, count)


def rows(quick: bool) -> Iterator[dict]:
    sys.path.insert(0, str(ROOT / "tools"))
    from browser import flags, installed
    from playwright.sync_api import sync_playwright
    from serve import served

    site = ROOT / "_build/html"
    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=flags())
        for name in PAGES:
            address = f"{origin}{name}.html"
            page = browser.new_page()
            page.goto(address)
            ids = page.eval_on_selector_all(
                ".mlx", "es => es.map(e => JSON.parse(e.dataset.mlx).id)"
            )
            page.close()
            for id in ids:
                times = first_results(browser, address, id, 2 if quick else 7)
                count = 5 if quick else 40
                if sliders(id):
                    times["move"] = moves(browser, address, id, count)
                if len(sliders(id)) > 1:
                    times["elsewhere"] = moves(browser, address, id, count, elsewhere=True)
                for what, took in times.items():
                    label, aim = f"{id}, {LABELS[what]}", AIMS[what]
                    yield rounds.row(label, took, "browser", "CPython", aim_seconds=aim)
        address, count = f"{origin}{PLAN}.html", 2 if quick else 7
        times = first_results(browser, address, "plan", count)
        for what, aim in (("first", AIMS["change"]), ("live", AIMS["live"])):
            label = f"plan, {LABELS[what]}"
            yield rounds.row(label, times[what], "browser", "CPython", aim_seconds=aim)
        times = pasted(browser, address, count)
        yield rounds.row("plan, a paste", times, "browser", "CPython", aim_seconds=AIMS["change"])
        times, layouts = changes(browser, f"{origin}{PLAN}.html", 4 if quick else 36)
        facts = {"aim_seconds": AIMS["change"], "layouts": layouts}
        yield rounds.row("plan, a change", times, "browser", "CPython", **facts)
        browser.close()
