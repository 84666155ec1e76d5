"""The page that plans a run: its stored answer stands, and a reader's own settings, rows, links and
files work on it.
"""

import json
import re

import pytest
from patience import PATIENCE

from mathlib.show.experiments import Named, find
from mathlib.specs import table

PAGE = "book/plan"
WAIT = 1000 * PATIENCE  # milliseconds
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
QUICK = "plan.model=llama3.2-1b&plan.devices=8&plan.sequences=64&plan.tokens=4096"
CONFIG_LABEL = "Instead of the model, its config.json"
CONFIG = """{
  "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 131072, "tie_word_embeddings": true
}"""


def at(visit, query=QUICK, **options):
    """The page with settings in its address, when they are answered."""
    seen = visit(PAGE, query=f"?{query}#experiment-plan", **options)
    answered(seen.page, 0)
    return seen


def answered(page, before):
    """Until there are more answers than before."""
    page.wait_for_function(
        "n => +(document.querySelector('.mlx').dataset.runs ?? 0) > n", arg=before, timeout=WAIT
    )


def runs(page):
    return int(page.locator(".mlx").get_attribute("data-runs") or 0)


def choose(page, label, name):
    """A name is typed and ended by Enter."""
    page.get_by_label(label, exact=True).fill(name)
    page.keyboard.press("Enter")


def unfold(page):
    page.locator(".mlx-more > summary").click()


def first_words(page):
    return page.locator(".mlx-say").first.inner_text()


def test_the_stored_answer_stands_without_scripts(visit):
    page = visit(PAGE, java_script_enabled=False).page
    assert page.locator(".mlx-rows tbody tr").count() == 10
    assert "a step" in first_words(page) and page.locator(".mlx-output svg").first.is_visible()
    assert page.locator(".mlx-output button").count() == 0


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, PHONE], ids=["desk", "phone"])
def test_the_answer_begins_in_the_first_screen_after_the_settings_most_need(visit, size):
    page = visit(PAGE, viewport=size).page
    words = page.locator(".mlx-say").first.bounding_box()
    assert words["y"] + 60 < size["height"], "two lines of it at least"
    assert page.locator(".mlx-control:visible").count() == 5
    named = page.locator(".mlx-more > summary").inner_text()
    first, more = find("plan").folded[:3], len(find("plan").folded) - 3
    assert all(control.label in named for control in first)
    assert named.endswith(f" and {more} more")


def test_folded_settings_open_where_a_link_or_a_refusal_means_one(visit):
    fold = ".mlx-more"
    for query, meant in (("plan.row=3", False), ("plan.risk=0.1", True)):
        page = visit(PAGE, query=f"?{query}").page
        assert page.locator(fold).evaluate("e => e.open") == meant, "a row shows itself"
    page = at(visit, f"{QUICK}&plan.only=wheels%3D3").page
    page.locator(f"{fold} > summary").click()
    n = runs(page)
    page.get_by_label("Number of GPUs").press("ArrowLeft")
    answered(page, n)
    assert "wheels" in page.locator(".mlx-refused").inner_text()
    assert page.get_by_label("Only layouts with").is_visible()


def test_rows_are_chosen_by_mouse_and_by_key_and_keep_the_focus(visit):
    seen = at(visit)
    page = seen.page
    n = runs(page)
    page.locator('tr[data-set="row 3"] td').first.click()
    answered(page, n)
    assert page.locator("tr[aria-current]").get_attribute("data-set") == "row 3"
    button = page.locator('tr[data-set="row 2"] button')
    button.focus()
    page.keyboard.press("Enter")
    answered(page, n + 1)
    assert page.locator("tr[aria-current]").get_attribute("data-set") == "row 2"
    assert page.evaluate("document.activeElement.dataset.focus") == "row 2"
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_function("location.search.includes('plan.row=2')")
    assert not seen.complaints and not seen.foreign


def test_a_pasted_config_is_answered_and_travels_in_the_link(visit):
    seen = at(visit)
    page = seen.page
    n, menu = runs(page), page.locator(".mlx-rows").inner_text()
    unfold(page)
    page.get_by_label(CONFIG_LABEL).fill(CONFIG)
    answered(page, n)
    assert "llama of config.json" in first_words(page)
    assert page.locator(".mlx-rows").inner_text() == menu, "it is the model of the menu"
    page.wait_for_function("location.hash.includes('plan.config=')")
    assert "config" not in page.evaluate("location.search"), "no server is told"
    link = page.evaluate("document.querySelector('.mlx-link').href")
    page.goto("about:blank")
    page.goto(link)
    answered(page, 0)
    assert "llama of config.json" in first_words(page)
    typed = page.get_by_label(CONFIG_LABEL).input_value()
    assert json.loads(typed) == json.loads(CONFIG)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_model_is_found_by_its_name_and_what_is_none_says_what_is_near(visit, size):
    seen = at(visit, viewport=size)
    page = seen.page
    model, note = page.get_by_label("Model", exact=True), page.locator(".mlx-near").first
    offered = page.evaluate("e => [...e.list.options].map((o) => o.value)", model.element_handle())
    assert offered == [row.get("title", name) for name, row in table("models").items()]
    model.focus()
    assert model.input_value() == "", "so that the list is not what has the name already"
    assert model.get_attribute("placeholder") == "Llama 3.2 1B"
    page.keyboard.press("Tab")
    assert model.input_value() == "Llama 3.2 1B" and note.inner_text() == ""
    n, before = runs(page), first_words(page)
    for typed, near in (("qwen 30b", "Qwen3 30B-A3B"), ("deepseak", "DeepSeek-V3")):
        choose(page, "Model", typed)
        assert f"No “{typed}” here" in note.inner_text() and near in note.inner_text()
        assert model.get_attribute("aria-invalid") == "true" and note.is_visible()
    assert (runs(page), first_words(page)) == (n, before), "the last answer stays"
    for typed, title in (("qwen3-8b", "Qwen3 8B"), ("deepseek v3", "DeepSeek-V3")):
        choose(page, "Model", typed)
        answered(page, n)
        n = runs(page)
        assert title in first_words(page) and model.input_value() == title
        assert note.inner_text() == "" and model.get_attribute("aria-invalid") == "false"
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert not seen.complaints


def test_a_name_from_the_browsers_list_counts_at_once(visit):
    page = at(visit).page
    n, nodes = runs(page), page.get_by_label("GPUs and their nodes")
    nodes.evaluate("""e => {
        e.value = [...e.list.options].find((o) => o.value.startsWith('L40S')).value;
        e.dispatchEvent(new InputEvent('input', { inputType: 'insertReplacementText' }));
    }""")
    answered(page, n)
    assert "(L40S 48 GB)" in first_words(page)
    page.wait_for_function("location.search.includes('plan.cluster=l40s')")


def test_axes_count_when_they_are_typed_to_the_end(visit):
    page = at(visit).page
    unfold(page)
    n, only = runs(page), page.get_by_label("Only layouts with")
    only.press_sequentially("zero=3")
    page.wait_for_timeout(500)
    assert runs(page) == n, "not letter by letter"
    page.keyboard.press("Enter")
    answered(page, n)
    cells = page.locator(".mlx-rows td.mlx-words").all_inner_texts()
    assert cells and all("ZeRO 3" in cell for cell in cells)
    page.wait_for_function("location.search.includes('plan.only=zero')")


def test_a_phone_shows_the_whole_table(visit):
    page = visit(PAGE, viewport=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    box = page.locator(".mlx-rows").bounding_box()
    assert box["x"] + box["width"] <= PHONE["width"]


def test_every_formula_and_the_files_are_there_and_stay_open(visit):
    seen = at(visit)
    page = seen.page
    for keep in ("time", "memory", "plan.sh", "plan.json"):
        page.locator(f'details[data-keep="{keep}"] > summary').click()
    assert page.locator('details[data-keep="time"] math:visible').count() > 5
    n = runs(page)
    page.locator('tr[data-set="row 2"] button').click()
    answered(page, n)
    assert page.locator("details[data-keep][open]").count() == 4
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as plan.json").click()
    plan = json.loads(saved.value.path().read_text("utf-8"))
    assert saved.value.suggested_filename == "plan.json" and plan["layout"]["devices"] == 8
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as plan.sh").click()
    assert "torchrun" in saved.value.path().read_text("utf-8")
    assert not seen.complaints


SLOW_ANSWER = """async () => {
    const script = document.querySelector('script[src*="live.mjs"]').src;
    const { run, stop, computing } = await import(new URL('python.mjs', script).href);
    const far = [];
    const values = { model: 'mixtral-8x7b', devices: 2048 };
    const slow = run('plan', values, undefined, (share, words) => far.push([share, words]))
        .then(() => 'answered', (error) => error.stopped);
    const begin = performance.now();
    while (!far.length && performance.now() - begin < 60000)
        await new Promise((next) => setTimeout(next, 20));
    const busy = computing();
    stop();
    const end = await slow;
    const small = { model: 'llama3.2-1b', devices: 8, sequences: 64, tokens: 4096 };
    return [far[0], busy > 0, end, (await run('plan', small)).includes('a step')];
}"""


def test_a_long_search_says_how_far_it_is_and_can_be_stopped(visit):
    page = visit(PAGE).page
    (share, words), busy, stopped, next_one = page.evaluate(SLOW_ANSWER)
    assert 0 <= share < 1 and words.endswith(" layouts")
    assert busy and stopped is True and next_one


NO_ANSWER = """
window.Worker = class extends Worker {
    set onmessage(hear) {
        super.onmessage = (event) => {
            if (!window.held || event.data.html === undefined) hear(event);
        };
    }
};
"""


def test_the_stop_button_keeps_the_answer_that_stands(visit):
    page = at(visit, script=NO_ANSWER).page
    before, model = first_words(page), page.get_by_label("Model", exact=True)
    page.evaluate("window.held = true")
    choose(page, "Model", "Llama 2 7B")
    page.get_by_label("Number of GPUs").press("ArrowRight")
    page.get_by_role("button", name="Stop").click()  # nothing lies over it
    page.wait_for_function(
        "document.querySelector('.mlx-status').textContent.includes('Stopped')",
        timeout=WAIT,
    )
    assert first_words(page) == before
    assert model.input_value() == "Llama 3.2 1B", "and its settings"
    page.evaluate("window.held = false")
    n = runs(page)
    choose(page, "Model", "Llama 2 7B")
    answered(page, n)
    assert "Llama 2 7B on 8\xa0devices" in first_words(page)


PYTHON = re.compile(r"wasm\.packed$")


def test_the_first_change_is_answered_by_what_came_with_the_site(visit):
    """Of any one setting, while Python has not come."""
    held = []
    page = visit(PAGE).page
    page.context.route(PYTHON, lambda route: held.append(route))
    unfold(page)
    for label, name, value in (
        ("Model", "model", "mixtral-8x7b"),
        ("Precision of states", "recipe", None),
    ):
        before = first_words(page) + page.locator(".mlx-rows").inner_text()
        control = next(one for one in find("plan").controls if one.name == name)
        value = value or control.offers()[-1]
        page.get_by_role("button", name="Back to the start").click()
        if isinstance(control, Named):
            choose(page, label, control.show(value))
        else:
            page.get_by_label(label, exact=True).select_option(label=control.show(value))
        html = find("plan").page({name: value})
        words = re.sub(r"<[^>]+>", "", re.search(r'mlx-say">(.*?)</p>', html, re.DOTALL)[1])
        page.wait_for_function(
            "words => document.querySelector('.mlx-say').textContent === words", arg=words
        )
        assert first_words(page) + page.locator(".mlx-rows").inner_text() != before
        assert page.locator(".mlx").get_attribute("data-state") == "starting"
    assert held, "Python is on its way for all other settings"
    for route in held:
        route.abort()


def started(seen):
    return [request.url for request in seen.finished if PYTHON.search(request.url)]


def test_python_starts_when_a_control_is_reached_for_and_not_before(visit):
    """By the focus, so that what is pasted need not wait for a start; nothing is said of it."""
    seen = visit(PAGE)
    page = seen.page
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(500)
    page.get_by_role("link", name="Link to these settings").focus()
    page.mouse.move(5, 5)
    page.wait_for_timeout(500)
    assert not started(seen)
    unfold(page)
    box = page.get_by_label(CONFIG_LABEL)
    with page.expect_worker():
        box.focus()
    assert page.locator(".mlx").get_attribute("data-state") == "stored"
    box.fill(CONFIG)
    answered(page, 0)
    assert "llama of config.json" in first_words(page)
    assert len(started(seen)) == 1 and not seen.complaints


def test_who_saves_data_starts_python_with_a_change_only(visit):
    page = visit(PAGE).page
    page.evaluate("Object.defineProperty(navigator, 'connection', { value: { saveData: true } })")
    unfold(page)
    page.get_by_label(CONFIG_LABEL).focus()
    page.wait_for_timeout(500)
    assert not page.workers
