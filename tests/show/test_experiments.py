"""Controls that refuse, refusals that are results, and every experiment of the book."""

import json
import random
import re
import subprocess
import sys

import pytest

from mathlib.checks import InputError
from mathlib.show.experiments import (
    REGISTRY,
    Choice,
    Experiment,
    Line,
    Named,
    Range,
    Text,
    Toggle,
    experiment,
    find,
    registry,
    run_json,
    tell,
)
from mathlib.show.figures import both


def draw_slope(slope: int, steep: bool) -> str:
    return f"<p>{slope * (10 if steep else 1)}</p>"


CONFIG = """{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
    "vocab_size": 50257, "n_positions": 16384}"""
CONTROLS = (Range("slope", "Slope", 1, 9, 1, 2), Toggle("steep", "Steep"))
SLOPE = Experiment("slope", "How steep", CONTROLS, draw_slope, (draw_slope,))


def test_names_are_refused_that_are_none():
    with pytest.raises(InputError, match="did you mean slope"):
        SLOPE.run({"slop": 3})
    with pytest.raises(InputError, match="did you mean"):
        find("memoru")


def test_a_refusal_is_a_result():
    def picky(n: int) -> str:
        raise InputError(f"n = {n}: expected <less>")

    html = Experiment("p", "P", (Range("n", "N", 1, 3, 1, 2),), picky).run({"n": 3})
    assert "Not possible: n = 3: expected &lt;less&gt;" in html


def test_what_is_stored_says_its_settings_and_carries_its_controls():
    html = SLOPE.html({"slope": 3, "steep": True})
    assert "<li>Slope: <b>3</b></li>" in html and "<li>Steep: <b>yes</b></li>" in html
    assert "<p>30</p>" in html and "&quot;default&quot;: 3" in html
    assert (
        "def draw_slope" in html and "def" not in Experiment("s", "S", (), draw_slope).code_html()
    )


def test_a_name_is_taken_once():
    with pytest.raises(InputError, match="'ring'"):
        registry()
        experiment("ring", "Another ring")(draw_slope)


@pytest.mark.parametrize("id", registry())
def test_every_experiment_explains_itself(id):
    one = find(id)
    html = one.html()
    assert one.code and "def " in one.source()
    assert 'class="mlx-say"' in one.run(), (
        "a verdict in words, for those who do not see the picture"
    )
    assert "<svg" in one.run() or "<table" in one.run()
    labels = [c.label for c in one.controls]
    assert all(len(label) > 3 and label[0].isupper() for label in labels), "labels are full words"
    assert html == one.html(one.values()) and "<script" not in html


def choices(control) -> list:
    if isinstance(control, Named):
        return control.touches()[:3]
    if isinstance(control, Choice):
        return [value for _, value in control.options]
    if isinstance(control, Toggle):
        return [True, False]
    if isinstance(control, Line):
        return [control.default, control.default[:-1], *control.likely[:1]]
    if isinstance(control, Text):
        return [control.default, CONFIG]
    return [control.low, control.high]


def pictures(one, given) -> str:
    """What is drawn; nothing where the settings are refused."""
    return "".join(re.findall(r"<svg.*?</svg>", one.run(given), re.DOTALL))


def moves(one, control, other) -> bool:
    """Whether two of its values are drawn, and not alike."""
    drawn = (pictures(one, {**other, control.name: value}) for value in choices(control))
    first = next((picture for picture in drawn if picture), "")
    return any(picture not in ("", first) for picture in drawn)


@pytest.mark.parametrize("id", registry())
def test_every_control_changes_the_picture(id):
    """By itself or, as chunks do in an order that has them, beside one other that is moved."""
    one = find(id)
    assert pictures(one, {})
    quick_first = sorted(one.controls, key=lambda c: isinstance(c, Named | Text))
    moved = [{c.name: value} for c in quick_first for value in choices(c)]
    for control in one.controls:
        others = [{}, *(other for other in moved if control.name not in other)]
        assert any(moves(one, control, other) for other in others), (
            f"{control.label} changes nothing that is drawn"
        )


@pytest.mark.parametrize("id", registry())
def test_the_browsers_way_in_gives_the_same_result(id):
    one = find(id)
    for home in ("", one.draw.__module__):
        assert run_json(id, json.dumps(one.values()), home) == one.page()


def test_a_listener_hears_what_a_long_experiment_tells_and_no_later_one():
    def draw(n: int) -> str:
        tell(n / 3, f"{n} of 3")
        return "<p>done</p>"

    heard: list[tuple[float, str]] = []
    REGISTRY["told"] = Experiment("told", "Told", (Range("n", "N", 1, 3, 1, 2),), draw, long=True)
    try:
        assert "&quot;long&quot;: true" in REGISTRY["told"].html()
        run_json("told", '{"n": 3}', "", lambda *far: heard.append(far))
        run_json("told", '{"n": 1}')
        assert heard == [(1.0, "3 of 3")]
    finally:
        del REGISTRY["told"]


def test_the_browser_imports_no_experiments_but_those_beside_the_one_it_shows():
    code = (
        "import sys; from mathlib.show.experiments import run_json\n"
        "run_json('ring', '{}', 'mathlib.explore.collectives')\n"
        "print([name for name in sys.modules if name.startswith('mathlib.explore.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['mathlib.explore.collectives']"


def test_a_refusal_says_which_values_are_possible():
    def picky(n: int, m: int) -> str:
        if n > 2 * m:
            raise InputError(f"m = {m}: expected at least {n / 2:g}")
        return "<p>fine</p>"

    controls = (Range("n", "N", 1, 6, 1, 2), Range("m", "Number of parts", 1, 4, 1, 4))
    one = Experiment("p", "P", controls, picky)
    html = one.run({"n": 6, "m": 1})
    assert "Number of parts can be: 3, 4." in html, "the control that the refusal names"
    stuck = Experiment("p", "P", controls[1:], lambda m: picky(n=100, m=m)).run({"m": 2})
    assert "can be" not in stuck


def test_who_looks_for_possible_values_draws_no_picture():
    drawn = []

    def picky(n: int) -> str:
        if n > 2:
            raise InputError(f"n = {n}: expected at most 2")
        return both(lambda width: drawn.append((n, width)) or "<svg></svg>")

    one = Experiment("p", "P", (Range("n", "N", 1, 3, 1, 2),), picky)
    assert "N can be: 1, 2." in one.run({"n": 3}) and not drawn
    assert one.run({"n": 2}) and [n for n, _ in drawn] == [2, 2]


@pytest.mark.parametrize("id", registry())
def test_an_experiment_refuses_before_it_draws(id):
    """Else it would offer what cannot be drawn."""
    one, by_chance = find(id), random.Random(id)
    for _ in range(20):
        values = {c.name: by_chance.choice(choices(c)) for c in one.controls}
        possible = one.draws(values)
        if possible:
            one.draw(**values)
        else:
            with pytest.raises(InputError):
                one.draw(**values)


def test_a_refusal_says_where_a_folded_control_is():
    def picky(**given: int) -> str:
        if given["c"] > 1:
            raise InputError(f"c = {given['c']}: expected 1")
        return "<p>fine</p>"

    controls = tuple(Range(name, name.upper(), 1, 4, 1, 1) for name in "abc")
    for main, where in ((1, "C (under More settings) can be: 1."), (2, "C can be: 1.")):
        one = Experiment("p", "P", controls, picky, main=main)
        assert one.folded == (controls[1:] if main == 1 else ())
        assert where in one.run({"c": 2})


def test_a_refusal_of_the_book_names_values_that_its_controls_have():
    one = find("memory")
    odd = one.run({"model": "gpt2-xl", "tensor": 2})
    assert "Not possible" in odd and "Tensor-parallel ranks (under More settings) can be: 1." in odd


def test_what_is_stored_tells_the_result_before_the_settings():
    html = SLOPE.html()
    assert html.index("mlx-output") < html.index("mlx-controls")
    assert "&quot;main&quot;: 3" in html
