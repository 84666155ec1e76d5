"""Experiments on the published page: stored first, then the library itself in the reader's
browser.
"""

import json
import random
import statistics

from pages import toc_pages

from mathlib.show.experiments import Choice, Control, Toggle, registry

CHAPTERS = [page for page in toc_pages() if page.startswith("chapters/")]
FIRST_RESULT = 3.0  # seconds from the first touch to the first live result
TOGETHER = 150  # random settings tried for each experiment
A_MOVE = 0.030  # seconds from a move to its result, median


def grid(control: Control) -> list:
    """A few values of a control: both ends, the default, and some between."""
    if isinstance(control, Choice):
        values = [v for _, v in control.options]
        return values if len(values) <= 4 else [values[0], values[len(values) // 2], values[-1]]
    if isinstance(control, Toggle):
        return [False, True]
    steps = round((control.high - control.low) / control.step)
    return [
        control.check(control.low + control.step * i)
        for i in sorted({0, steps // 3, steps // 2, steps})
    ]


def cases() -> list[tuple[str, dict]]:
    """Every experiment: each control alone over its grid, then all of them together at random."""
    dice, found = random.Random(2020), []
    for experiment in registry().values():
        grids = {control.name: grid(control) for control in experiment.controls}
        found += [
            (experiment.id, experiment.values({name: value}))
            for name, values in grids.items()
            for value in values
        ]
        for _ in range(TOGETHER):
            found.append(
                (experiment.id, {name: dice.choice(values) for name, values in grids.items()})
            )
    return found


def page_with_experiment(visit, **options):
    for name in CHAPTERS:
        seen = visit(name, **options)
        if seen.page.locator(".mlx").count():
            return seen
    raise AssertionError("no chapter has an experiment")


def test_stored_result_comes_first_and_python_waits_for_a_touch(visit):
    seen = page_with_experiment(visit)
    assert seen.page.locator(".mlx").first.get_attribute("data-state") == "stored"
    assert seen.page.locator(".mlx-output svg").first.is_visible()
    assert not [r.url for r in seen.finished if "pyodide" in r.url], (
        "Python was fetched before anybody asked for it"
    )


def test_controls_move_and_results_change(visit):
    seen = page_with_experiment(visit)
    root = seen.page.locator(".mlx").first
    stored = root.locator(".mlx-output").inner_html()
    root.locator("input[type=range]").first.focus()
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_selector(".mlx[data-state=live], .mlx[data-state=failed]", timeout=60_000)
    assert root.get_attribute("data-state") == "live", root.locator(".mlx-status").text_content()
    seen.page.wait_for_function(
        "old => document.querySelector('.mlx-output').innerHTML !== old", arg=stored, timeout=5_000
    )
    assert root.locator(".mlx-output svg").is_visible()
    assert seen.page.evaluate("document.activeElement.type") == "range", "the focus was lost"
    seen.page.wait_for_function(
        "document.querySelector('.mlx-spoken').textContent !== ''", timeout=5_000
    )
    assert (
        root.locator(".mlx-spoken").text_content()
        == root.locator(".mlx-output .mlx-say").first.text_content()
    )
    root.locator("button").click()
    seen.page.wait_for_function(
        "old => document.querySelector('.mlx-output').innerHTML === old", arg=stored, timeout=5_000
    )
    assert not seen.complaints and not seen.foreign


def test_a_result_cannot_run_anything_in_the_page(visit):
    left = page_with_experiment(visit).page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { insert } = await import(new URL('dom.mjs', script).href);
            const place = document.body.appendChild(document.createElement('div'));
            insert(place, `<p onclick="window.hit=1" id="kept">text</p>
                <script>window.hit = 1</script>
                <img src="x" onerror="window.hit=1"><a href="javascript:window.hit=1">link</a>
                <iframe src="/"></iframe>
                <svg><a href="javascript:window.hit=1"><rect fill="url(#pattern)"/></a>
                <use href="#kept"/></svg>`);
            place.querySelectorAll('*').forEach((e) =>
                e.dispatchEvent(new MouseEvent('click', { bubbles: true })));
            await new Promise((done) => setTimeout(done, 200));
            return [window.hit ?? 0, place.innerHTML];
        }"""
    )
    assert left[0] == 0
    assert 'id="kept"' in left[1] and 'href="#kept"' in left[1] and "url(#pattern)" in left[1]
    assert not any(
        word in left[1] for word in ("onclick", "onerror", "javascript:", "<script", "<iframe")
    )


def test_the_browser_returns_the_bytes_of_cpython(visit):
    seen = page_with_experiment(visit)
    asked = cases()
    answers = seen.page.evaluate(
        """async (cases) => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { run } = await import(new URL('python.mjs', script).href);
            return Promise.all(cases.map(([id, values]) => run(id, values)));
        }""",
        asked,
    )
    assert len(asked) >= 20
    differ = [
        (id, json.dumps(values))
        for (id, values), html in zip(asked, answers, strict=True)
        if html != registry()[id].run(values)
    ]
    assert not differ, f"{len(differ)} of {len(asked)} cases differ, the first: {differ[0]}"


def test_speed(visit, record_property):
    seen = page_with_experiment(visit)
    times = seen.page.evaluate(
        """async () => {
            const root = document.querySelector('.mlx'),
                slider = root.querySelector('input[type=range]');
            const result = (runs) => new Promise((done, fail) => {
                const look = () => {
                    if (root.dataset.state === 'failed')
                        fail(new Error(root.querySelector('.mlx-status').textContent));
                    else if (+(root.dataset.runs ?? 0) >= runs) done(performance.now());
                    else setTimeout(look, 0);
                };
                look();
            });
            const moves = [];
            let start = performance.now();
            slider.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }));
            const first = (await result(1)) - start;
            for (let i = 0; i < 30; i++) {
                slider.value = +slider.min + (i % 5) * +slider.step;
                start = performance.now();
                slider.dispatchEvent(new Event('input'));
                moves.push((await result(2 + i)) - start);
            }
            return { first: first / 1000, moves: moves.map((m) => m / 1000) };
        }"""
    )
    record_property("first_result_s", times["first"])
    record_property("median_move_s", statistics.median(times["moves"]))
    print(
        f"first result {times['first']:.2f} s, median move "
        f"{statistics.median(times['moves']) * 1000:.1f} ms"
    )
    assert times["first"] < FIRST_RESULT
    assert statistics.median(times["moves"]) < A_MOVE
