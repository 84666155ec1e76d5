"""Experiments on the published page: stored first, then the library itself in the reader's
browser.
"""

import json
import random
import re
import runpy
import zipfile
from html import unescape

import pytest
from ahead import near, shelf
from pages import ROOT, quiet, toc_pages

from mathlib.show.experiments import Choice, Control, Experiment, Line, Text, Toggle, find, registry

CHAPTERS = [page for page in toc_pages() if page.startswith("chapters/")]
FIRST_TOUCH = 15e6  # bytes that the first live result may cost: Python, and the library
TOGETHER = 20  # random settings tried for each experiment
SAID = 25  # settings of each whose stored answer is computed again
SEARCHES = 4  # of one that searches
LINE = find("build").controls[1].likely[0]


def grid(control: Control) -> list:
    """A few values of a control: both ends, the default, and some between."""
    if isinstance(control, Choice):
        values = [v for _, v in control.options]
        return values if len(values) <= 4 else [values[0], values[len(values) // 2], values[-1]]
    if isinstance(control, Toggle):
        return [False, True]
    if isinstance(control, Text):
        return ["", "{}", '{"model_type": "gpt2"}', "{"]
    if isinstance(control, Line):
        return [
            control.default,
            control.default[:-1],
            control.default.lower(),
            "",
            *control.likely[:1],
        ]
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
        for _ in range(SEARCHES if experiment.long else TOGETHER):
            found.append(
                (experiment.id, {name: dice.choice(values) for name, values in grids.items()})
            )
    return found


def test_each_setting_is_answered_ahead_once(monkeypatch):
    one, asked = find("ring"), []
    monkeypatch.setattr(Experiment, "page", lambda one, values: asked.append(values) or "")
    shelf(one)
    assert len(asked) > 10
    assert all(asked.count(values) == 1 for values in asked)


def test_only_what_is_loaded_is_compiled(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, text in (("a/__init__.py", "1"), ("a/b.py", "("), ("a/c.toml", "d = 1")):
            archive.writestr(name, text)
    script = runpy.run_path(str(ROOT / "book/live/precompile.py"))
    names = [name for name, _ in script["compiled"](tmp_path / "a.zip", {"a"})]
    assert names == ["a/__init__.pyc", "a/c.toml"]


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
    assert root.locator(".mlx-output svg").first.is_visible()
    assert seen.page.evaluate("document.activeElement.type") == "range", "the focus was lost"
    seen.page.wait_for_function(
        "document.querySelector('.mlx-spoken').textContent !== ''", timeout=5_000
    )
    assert (
        root.locator(".mlx-spoken").text_content()
        == root.locator(".mlx-output .mlx-say").first.text_content()
    )
    root.locator(".mlx-actions button").click()
    seen.page.wait_for_function(
        "old => document.querySelector('.mlx-output').innerHTML === old", arg=stored, timeout=5_000
    )
    assert not seen.complaints and not seen.foreign


def test_a_result_cannot_run_anything_in_the_page(visit):
    left = page_with_experiment(visit).page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { parsed } = await import(new URL('dom.mjs', script).href);
            const place = document.body.appendChild(document.createElement('div'));
            place.append(parsed(`<p onclick="window.hit=1" id="kept">text</p>
                <script>window.hit = 1</script>
                <img src="x" onerror="window.hit=1"><a href="javascript:window.hit=1">link</a>
                <iframe src="/"></iframe>
                <svg><a href="javascript:window.hit=1"><rect fill="url(#pattern)"/></a>
                <use href="#kept"/></svg>`));
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


def test_a_line_lets_only_its_letters_in(visit):
    page = page_with_experiment(visit).page
    page.evaluate(
        """async () => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { build } = await import(new URL('controls.mjs', script).href);
            const shape = { kind: 'line', name: 'row', letters: 'FBfb ', most: 6 };
            const line = { ...shape, label: 'Row', default: 'FB' };
            window.made = build(line, 'a-line', (value) => { window.told = value; });
            document.body.append(window.made.row);
        }"""
    )
    box = page.get_by_label("Row", exact=True)
    assert box.input_value() == "FB"
    box.focus()
    page.keyboard.press("Home")
    page.keyboard.type("xF9b")
    assert box.input_value() == "FbFB" == page.evaluate("window.told")
    assert box.evaluate("e => e.selectionStart") == 2, "the cursor stays behind what was typed"
    box.fill("BBBBBBBBBB")
    assert box.input_value() == "BBBBBB"
    reads = page.evaluate(
        "['FB b', 'FX', 'FFFFFFF', ''].map((text) => window.made.read(text) ?? null)"
    )
    assert reads == ["FB b", None, None, ""], "an address that names no line is not followed"


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
        if html != registry()[id].page(values)
    ]
    assert not differ, f"{len(differ)} of {len(asked)} cases differ, the first: {differ[0]}"


def test_what_comes_with_the_site_is_found_and_is_what_the_library_says(visit):
    """Every value of every control is there, the others as the page has them; of each experiment
    some are computed again.
    """
    seen = page_with_experiment(visit)
    dice, asked = random.Random(2020), []
    for one in registry().values():
        settings = near(one)
        again = dice.sample(range(len(settings)), min(SAID, len(settings)))
        asked += [(one.id, values, i in again) for i, values in enumerate(settings)]
    told = seen.page.evaluate(
        """async (cases) => {
            const script = document.querySelector('script[src*="live.mjs"]').src;
            const { stored } = await import(new URL('answers.mjs', script).href);
            return Promise.all(cases.map(([id, values]) => stored(id, values).then(
                (nodes) => nodes && nodes.querySelector('.mlx-say').textContent)));
        }""",
        asked,
    )
    assert len(asked) > 1000
    for (id, values, again), sentence in zip(asked, told, strict=True):
        assert sentence and (not again or sentence == spoken(registry()[id].page(values))), (
            id,
            values,
        )
    assert not [r.url for r in seen.finished if "pyodide" in r.url]


PLACES = """[...document.querySelectorAll('.bd-article section, .mlx')]
    .map((e) => e.getBoundingClientRect().top + window.scrollY)"""
ASLEEP = """() => [...document.querySelectorAll('section > p .katex, .cell_output svg.mlx-wide')]
    .map((e) => [e.checkVisibility({ contentVisibilityAuto: true }), e.getBoundingClientRect().top])
    .filter(([awake, top]) => awake && Math.abs(top) > 5000).length"""


def test_what_is_out_of_sight_rests_while_somebody_plays_and_nothing_moves(visit):
    """Layout and paint of the whole page were most of a move."""
    page = page_with_experiment(visit).page
    root = page.locator(".mlx").first
    root.scroll_into_view_if_needed()
    assert page.evaluate(ASLEEP) > 20, "whoever reads sees a page like any other"
    before = page.evaluate(PLACES)
    root.locator("input[type=range]").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".mlx[data-state=live]", timeout=60_000)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('.mlx').dataset.runs === '2'")
    page.evaluate(
        "new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))"
    )
    assert page.evaluate(ASLEEP) == 0
    root.locator(".mlx-output").evaluate("e => { e.style.minHeight = ''; }")
    after = page.evaluate(PLACES)
    moved = [abs(now - then) for then, now in zip(before, after, strict=True)]
    assert max(moved) < 2, "a page that jumps while somebody plays"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(ASLEEP) > 20


COUNT_WORK = """
window.asked = [];
window.workers = 0;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (...given) {
    window.asked.push(JSON.stringify(given[0].values));
    post.apply(this, given);
};
window.Worker = class extends Worker {
    constructor(...given) { super(...given); window.workers += 1; }
};
"""
# Another control first, so that none of the settings came with the site.
MOVES = """async ([moves, together]) => {
    const root = document.querySelector('.mlx');
    const [slider, another] = root.querySelectorAll('input[type=range]');
    const values = 1 + Math.round((slider.max - slider.min) / slider.step);
    const shown = () => +(root.dataset.runs ?? 0);
    const already = shown();
    const settled = async (runs) => {
        const begin = performance.now();
        while (shown() < already + runs) {
            if (performance.now() - begin > 60_000) throw new Error(`run ${runs} never came`);
            if (root.dataset.state === 'failed')
                throw new Error(root.querySelector('.mlx-status').textContent);
            await new Promise((next) => setTimeout(next, 0));
        }
    };
    another.value = another.max;
    another.dispatchEvent(new Event('input'));
    await settled(1);
    const before = window.asked.length;
    for (let i = 0; i < moves; i++) {
        slider.value = +slider.min + (i % values) * +slider.step;
        slider.dispatchEvent(new Event('input'));
        if (!together) await settled(2 + i);
    }
    await settled(2);
    return [window.asked, window.workers, window.asked.length - before];
}"""
# All that is computed ahead is there when Python has been silent for a while.
SILENT = """async () => {
    let before = -1;
    while (before < window.asked.length) {
        before = window.asked.length;
        await new Promise((next) => setTimeout(next, 500));
    }
    return before;
}"""


def visit_that_counts(visit):
    return page_with_experiment(visit, script=COUNT_WORK)


def test_the_first_touch_starts_one_python_and_fetches_each_file_once(visit):
    """What a start costs is what it fetches; seconds are the bench's business."""
    seen = visit_that_counts(visit)
    already = len(seen.finished)
    _, workers, _ = seen.page.evaluate(MOVES, [1, False])
    assert workers == 1
    touched = [r for r in seen.finished[already:] if "favicon" not in r.url]  # of the page itself
    fetched = [request.url for request in touched]
    assert fetched and len(fetched) == len(set(fetched)), "a file was fetched twice"
    assert sum(r.sizes()["responseBodySize"] for r in touched) < FIRST_TOUCH


def test_a_setting_is_computed_once_and_moves_while_python_works_are_not_queued(visit):
    seen = visit_that_counts(visit)
    asked, _, _ = seen.page.evaluate(MOVES, [30, False])
    assert len(asked) == len(set(asked)) > 5, "the same setting was computed again"
    seen.page.reload()
    quiet(seen.page)
    assert len(sliders(seen.page)[1][0].offers()) >= 9
    *_, more = seen.page.evaluate(MOVES, [9, True])
    assert more <= 4, "nine at once are the first and the last, and what was computed ahead"


def sliders(page) -> tuple[str, list[Control]]:
    """Those of the first experiment, and its name."""
    id = page.evaluate("JSON.parse(document.querySelector('.mlx').dataset.mlx).id")
    return id, [c for c in registry()[id].controls if c.spec()["kind"] in ("range", "slider")]


def test_where_a_control_can_go_is_computed_before_it_is_moved_there(visit):
    page = visit_that_counts(visit).page
    id, (slider, another, *_) = sliders(page)
    page.evaluate(MOVES, [1, False])
    page.evaluate(SILENT)
    foreseen = [json.loads(values) for values in page.evaluate("window.asked") if values]
    far = {another.name: another.offers()[-1]}
    for value in slider.offers()[:5]:
        assert {**registry()[id].values(far), slider.name: value} in foreseen
    beside = {**registry()[id].values(far), slider.name: slider.offers()[0]}
    for value in another.offers()[-5:]:
        if value == another.default:
            continue  # one change from the page: it came with the site
        assert {**beside, another.name: value} in foreseen, "only what the hand holds was foreseen"
    page.evaluate(MOVES, [5, False])
    root = page.locator(".mlx").first
    shown = root.locator(".mlx-output .mlx-say").first.text_content()
    page.evaluate(MOVES, [1, False])
    other = root.locator(".mlx-output .mlx-say").first.text_content()
    for said, value in ((shown, slider.offers()[4]), (other, slider.offers()[0])):
        settings = {slider.name: value, another.name: another.offers()[-1]}
        assert spoken(registry()[id].page(settings)) == said


SAYS = """([id, values]) => {
    const root = [...document.querySelectorAll('.mlx')].find((e) =>
        JSON.parse(e.dataset.mlx).id === id);
    const inputs = [...root.querySelectorAll('input[type=range]')];
    return inputs.map((input, i) => values[i].map((value) => {
        input.value = value;
        input.dispatchEvent(new Event('input'));
        return input.getAttribute('aria-valuetext');
    }));
}"""


def test_a_page_says_a_value_with_its_unit_as_python_does(visit):
    """The rule stands twice, in controls.mjs and in Range.show."""
    page = visit("chapters/compute").page
    ranges = [c for c in registry()["cost"].controls if c.spec()["kind"] in ("range", "slider")]
    places = [range(len(c.offers())) if isinstance(c, Choice) else c.offers() for c in ranges]
    said = page.evaluate(SAYS, ["cost", [list(values) for values in places]])
    assert said == [[c.show(value) for value in c.offers()] for c in ranges]
    assert {"$2", "$2.50", "45%"} <= {text for texts in said for text in texts}


def spoken(html: str) -> str:
    """The sentence of a result, as a page says it."""
    sentence = re.search(r'<p class="mlx-say[^"]*">(.*?)</p>', html, re.DOTALL)
    return unescape(re.sub("<[^>]*>", "", sentence[1]))


@pytest.mark.parametrize(
    ("name", "id", "label", "texts"),
    [
        ("chapters/precision", "bits", "A number", ["0.15", "0.", "7", "6", "65", "65504"]),
        ("chapters/schedules", "build", "Stage 1", ["FFFBFBFBFBFBFBFBB", "I", LINE]),
    ],
)
def test_what_is_typed_first_is_answered_before_python_is_there(visit, name, id, label, texts):
    """A key more or less, one instead of all, a number on its way, a line of a known order."""
    held, page, one = [], visit(name).page, find(id)
    page.context.route("**/*wasm.packed", lambda route: held.append(route))
    root = page.locator(f'.mlx[aria-label="Experiment: {one.title}"]')
    control = next(c for c in one.controls if c.label == label)
    for text in texts:
        root.get_by_label(label, exact=True).fill(text)
        page.wait_for_function(
            "([root, words]) => root.querySelector('.mlx-say').textContent === words",
            arg=[root.element_handle(), spoken(one.page({control.name: text}))],
        )
        assert root.get_attribute("data-state") == "starting"
    for route in held:
        route.abort()
