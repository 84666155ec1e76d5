"""Pictures, comparisons, equations and experiments as the library makes them, before any page."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import units
from mathlib.checks import InputError
from mathlib.parts import Parts
from mathlib.show import compare, plot, predict, svg, tables
from mathlib.show.comparison import Disagreement
from mathlib.show.equation import equation
from mathlib.show.experiments import (
    Choice,
    Experiment,
    Range,
    Toggle,
    doubling,
    find,
    registry,
    run_json,
)
from mathlib.show.prediction import judge
from mathlib.show.widgets import View


def draw_slope(slope: int, steep: bool, unit: int) -> str:
    return f"<p>{slope * unit * (10 if steep else 1)}</p>"


CONTROLS = (
    Range("slope", "Slope", 1, 9, 1, 2),
    Toggle("steep", "Steep"),
    doubling("unit", "Unit", 5, 20, 5),
)
SLOPE = Experiment("slope", "How steep", CONTROLS, draw_slope, (draw_slope,))
SPACE = "{http://www.w3.org/2000/svg}"


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB"


def drawn(chart: str) -> ET.Element:
    return ET.fromstring(chart)


def words(chart: str) -> list[str]:
    return [t.text for t in drawn(chart).iter(f"{SPACE}text")]


# --- compare ---


def test_comparison_raises_beyond_its_tolerance_and_names_the_row():
    with pytest.raises(Disagreement, match="^bytes sent: "):
        compare(bytes_sent=(100, 103), flop=(5, 5), tolerance=0.02)
    assert compare(bytes_sent=(100, 102), tolerance=0.02).worst == pytest.approx(0.02)


def test_exact_comparison_refuses_one_unit_in_a_trillion_and_prints_every_digit():
    with pytest.raises(Disagreement):
        compare(flop=(10**12, 10**12 + 1), tolerance=0)
    table = compare(flop=(1234567890123, 1234567890123), tolerance=0, unit="FLOP")
    assert "predicted, FLOP" in str(table) and "1,234,567,890,123" in str(table)
    assert str(table).splitlines()[1].split()[-1] == "1"


@pytest.mark.parametrize(
    "pair", [(1, math.nan), (math.inf, math.inf), (1, None), (1,), 3, (True, True)]
)
def test_comparison_refuses_what_is_no_number(pair):
    with pytest.raises(InputError, match="flop"):
        compare(flop=pair, tolerance=0.5)


def test_nothing_measured_against_nothing_predicted_is_agreement():
    assert compare(sent=(0, 0), tolerance=0).worst == 0
    with pytest.raises(Disagreement):
        compare(sent=(0, 1), tolerance=0.9)
    with pytest.raises(InputError):
        compare(tolerance=0)


# --- pictures ---


def test_stacked_bars_are_as_long_as_their_numbers():
    chart = svg.bars(
        [("a", {"weights": 10e9, "idle": 30e9}), ("b", {"weights": 20e9})],
        title="t",
        show=gigabytes,
    )
    boxes = {
        r.find(f"{SPACE}title").text: float(r.get("width"))
        for r in drawn(chart).iter(f"{SPACE}rect")
        if r.find(f"{SPACE}title") is not None
    }
    assert boxes["a, idle: 30.0 GB"] == pytest.approx(3 * boxes["a, weights: 10.0 GB"], abs=0.2)
    assert boxes["b, weights: 20.0 GB"] == pytest.approx(2 * boxes["a, weights: 10.0 GB"], abs=0.2)


def test_what_passes_the_limit_is_crossed_out_and_said():
    rows = [("small", {"weights": 60e9}), ("large", {"weights": 90e9})]
    chart = svg.bars(rows, title="t", show=gigabytes, limit=80e9)
    crosses = [p for p in drawn(chart).iter(f"{SPACE}path") if p.get("stroke-linecap") == "round"]
    assert len(crosses) == 1
    large = next(
        r
        for r in drawn(chart).iter(f"{SPACE}rect")
        if "large" in (r.findtext(f"{SPACE}title") or "")
    )
    assert float(crosses[0].get("d").split("L")[0].split()[1]) > float(large.get("y")), (
        "the cross is on another bar"
    )
    said = drawn(chart).find(f"{SPACE}desc").text
    assert "large: 90.0 GB, over the limit" in said and "small: 60.0 GB, over" not in said


def test_a_role_has_one_colour_and_two_names_never_share_a_look():
    assert svg.style_of("optimizer (sharded)") == svg.ROLES["optimizer"]
    looks = svg._styles(["weights", "fp32 weights", "idle", "something", "else"])
    assert len(set(looks.values())) == 5 and looks["weights"] == svg.ROLES["weights"]


def test_charts_carry_their_words_and_no_id_twice():
    one = svg.bars([("a", {"weights": 1, "gradients": 2})], title="T & t", show=str)
    two = svg.bars([("a", {"weights": 1, "gradients": 3})], title="T & t", show=str)
    ids = [{e.get("id") for e in drawn(c).iter() if e.get("id")} for c in (one, two)]
    assert not ids[0] & ids[1]
    for chart, own in zip((one, two), ids, strict=True):
        assert (
            drawn(chart).get("role") == "img"
            and set(drawn(chart).get("aria-labelledby").split()) <= own
        )
        assert all(
            f"#{use}" in {f"#{i}" for i in own}
            for use in [
                r.get("fill")[5:-1]
                for r in drawn(chart).iter(f"{SPACE}rect")
                if "url" in r.get("fill")
            ]
        )


@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=6), st.floats(1, 1e15))
def test_bars_stay_inside_the_picture(values, limit):
    chart = drawn(
        svg.bars(
            [("row", {f"p{i}": v for i, v in enumerate(values)})],
            title="t",
            show=gigabytes,
            limit=limit,
        )
    )
    for box in chart.iter(f"{SPACE}rect"):
        assert (
            float(box.get("x")) >= 0
            and float(box.get("x")) + float(box.get("width")) <= svg.WIDTH + 1
        )


@given(
    st.lists(st.tuples(st.floats(1, 1e12), st.floats(1, 1e12)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_curves_stay_inside_their_axes(curve, log_x, log_y):
    chart = plot.lines(
        {"c": sorted(curve)},
        title="t",
        x_title="x",
        y_title="y",
        show_x=str,
        show_y=str,
        log_x=log_x,
        log_y=log_y,
    )
    path = next(p for p in drawn(chart).iter(f"{SPACE}path") if p.get("stroke-width") == "2.5").get(
        "d"
    )
    for point in path[1:].split("L"):
        x, y = map(float, point.split())
        assert 69 <= x <= svg.WIDTH and 29 <= y <= 263


def test_a_logarithmic_axis_refuses_zero():
    with pytest.raises(InputError, match="logarithmic"):
        plot.lines(
            {"c": [(0, 1)]}, title="t", x_title="x", y_title="y", show_x=str, show_y=str, log_x=True
        )


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_few_and_within(low, width):
    marks = svg.ticks(low, low + width)
    assert len(marks) <= 12 and all(
        low - width * 1e-6 <= m <= low + width * (1 + 1e-6) for m in marks
    )


def test_timeline_places_events_in_time():
    chart = svg.timeline(
        [("rank 0", [("forward", 0, 1, "F0"), ("idle", 1, 2, "wait"), ("backward", 2, 4, "B0")])],
        title="t",
        show=lambda s: f"{s:g} s",
        axis_title="time",
    )
    box = {
        r.find(f"{SPACE}title").text: (float(r.get("x")), float(r.get("width")))
        for r in drawn(chart).iter(f"{SPACE}rect")
        if r.find(f"{SPACE}title") is not None
    }
    forward, backward = box["rank 0, F0: 0 s to 1 s"], box["rank 0, B0: 2 s to 4 s"]
    assert backward[1] == pytest.approx(2 * forward[1], abs=0.2) and backward[0] == pytest.approx(
        forward[0] + 2 * forward[1], abs=0.2
    )
    assert "backward 2 s" in drawn(chart).find(f"{SPACE}desc").text


def test_sums_of_parts_draw_themselves():
    inner = Parts("act", "byte", {"attention": 1e9, "mlp": 3e9})
    html = Parts("Memory", "byte", {"weights": 4e9, "activations": inner})._repr_html_()
    assert "<svg" in html and "12.5%" in html and "37.5%" in html and "8 GB" in html


# --- equations ---


def test_an_equation_refuses_numbers_that_do_not_satisfy_it():
    with pytest.raises(InputError, match="gives 12"):
        equation("M = k * P", M=13, k=3, P=4)
    with pytest.raises(InputError, match="needs P"):
        equation("M = k * P", M=12, k=3)


@pytest.mark.parametrize(
    "law, holds",
    [
        ("x = a * (b + c)", "<mo>(</mo>"),
        ("x = a - (b + c)", "<mo>(</mo>"),
        ("x = (a + b) / c", "<mfrac>"),
        ("x = (a + b) ** 2", "<msup>"),
        ("x = max(a, b) + c", "max"),
        ("x = -a + b * c", "&minus;"),
    ],
)
def test_equations_are_well_formed_and_keep_their_brackets(law, holds):
    numbers = {"a": 2, "b": 3, "c": 4}
    value = eval(law.split("=")[1], {"max": max}, numbers)
    html = equation(
        law, x=value, **{n: v for n, v in numbers.items() if n in law[3:].replace("max", "")}
    )
    assert holds in html
    ET.fromstring(html.replace("&minus;", "-").replace("&sdot;", ".").replace("&nbsp;", " "))


# --- experiments ---


def test_controls_refuse_what_they_do_not_offer():
    slider = Range("x", "X", 0.1, 1.0, 0.1, 0.3)
    assert slider.check(0.1 + 0.2) == 0.3 and slider.check(1) == 1.0
    for wrong in (0, 1.1, "0.3", True, math.nan):
        with pytest.raises(InputError, match="x = "):
            slider.check(wrong)
    with pytest.raises(InputError, match="n = 3"):
        doubling("n", "N", 1, 8, 4).check(3)
    with pytest.raises(InputError, match="t = 1"):
        Toggle("t", "T").check(1)
    with pytest.raises(InputError, match="did you mean slope"):
        SLOPE.run({"slop": 3})
    with pytest.raises(InputError, match="did you mean"):
        find("memoru")


def test_a_refusal_is_a_result():
    def picky(n: int) -> str:
        raise InputError(f"n = {n}: expected <less>")

    html = Experiment("p", "P", (Range("n", "N", 1, 3, 1, 2),), picky).run({"n": 3})
    assert "Not possible: n = 3: expected &lt;less&gt;" in html


@pytest.mark.parametrize("id", registry())
def test_every_experiment_explains_itself(id):
    experiment = find(id)
    html = experiment.html()
    assert experiment.code and "def " in experiment.source()
    assert 'class="mlx-say"' in experiment.run(), (
        "a verdict in words, for those who do not see the picture"
    )
    assert "<svg" in experiment.run() or "<table" in experiment.run()
    assert all(len(c.label) > 3 and c.label[0].isupper() for c in experiment.controls), (
        "labels are full words"
    )
    assert html == experiment.html(experiment.values()) and "<script" not in html


@pytest.mark.parametrize("id", registry())
def test_every_control_changes_something(id):
    experiment = find(id)
    for control in experiment.controls:
        others = (
            [v for _, v in control.options]
            if isinstance(control, Choice)
            else [True, False]
            if isinstance(control, Toggle)
            else [control.low, control.high]
        )
        assert len({experiment.run({control.name: value}) for value in others}) > 1, (
            f"{control.label} does nothing"
        )


@pytest.mark.parametrize("id", registry())
def test_the_browsers_way_in_gives_the_same_result(id):
    assert run_json(id, json.dumps(find(id).values())) == find(id).run()


def test_a_notebook_shows_html_first_and_widgets_where_it_can():
    view = View(SLOPE, slope=3)
    bundle = view._repr_mimebundle_()
    assert (
        list(bundle)[:2] == ["text/html", "text/plain"]
        and "application/vnd.jupyter.widget-view+json" in bundle
    )
    assert (
        "<li>Slope: <b>3</b></li>" in bundle["text/html"]
        and "&quot;default&quot;: 3" in bundle["text/html"]
    )
    slope, steep, unit, result, code = view.widget.children
    assert result.value == SLOPE.run({"slope": 3}) and "def draw_slope" in code.value
    slope.value, steep.value, unit.value = 5, True, 10
    assert result.value == SLOPE.run({"slope": 5, "steep": True, "unit": 10}) == "<p>500</p>"


# --- predict first ---


@pytest.mark.parametrize(
    "guess, said",
    [
        (10, "exactly"),
        (10.5, "1.05 times the measured value, close"),
        (20, "2.00 times the measured value, too high"),
        (1, "too low"),
        (-1, "measured: 10 GB"),
    ],
)
def test_a_guess_is_judged_fairly(guess, said):
    assert said in judge(guess, 10, "GB")


def test_the_answer_is_folded_away_until_asked_for():
    html = predict(
        "How much?", measured=3, predicted=3.5, unit="GB", explanation="Because <so>."
    )._repr_html_()
    before, after = html.split("<details>")
    assert (
        "3.5" not in before.split("aria-label")[1]
        and "3.5 GB" in after
        and "Because &lt;so&gt;." in after
    )
    with pytest.raises(InputError, match="measured = nan"):
        predict("How much?", measured=math.nan)


# --- rooms ---


def test_showing_needs_no_torch_no_numpy_no_plotting():
    heavy = ("torch", "numpy", "matplotlib", "ipywidgets", "IPython")
    code = f"import sys, mathlib.show; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "[]"


def test_source_shows_a_method_at_the_margin():
    shown = str(tables.source(units.show, Parts.share))
    assert shown.startswith("def show(") and "\n\ndef share(self" in shown
