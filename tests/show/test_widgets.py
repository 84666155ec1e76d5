"""In a notebook: HTML first, and live controls that show what the experiment shows."""

from dataclasses import replace

import pytest

from mathlib.checks import InputError
from mathlib.show import explore
from mathlib.show.experiments import Experiment, Line, Range, Toggle, doubling
from mathlib.show.widgets import VIEW, View, bundle


def draw_slope(slope: int, steep: bool, unit: int) -> str:
    return f"<p>{slope * unit * (10 if steep else 1)}</p>"


CONTROLS = (
    Range("slope", "Slope", 1, 9, 1, 2),
    Toggle("steep", "Steep"),
    doubling("unit", "Unit", 5, 20, 5),
)
SLOPE = Experiment("slope", "How steep", CONTROLS, draw_slope, (draw_slope,))


def test_a_notebook_shows_html_first_and_widgets_where_it_can():
    data = View(SLOPE, slope=3)._repr_mimebundle_()
    assert list(data)[:2] == ["text/html", "text/plain"] and VIEW in data
    assert "<li>Slope: <b>3</b></li>" in data["text/html"]
    assert "&quot;default&quot;: 3" in data["text/html"]


def test_moving_a_control_shows_what_the_experiment_shows():
    result, slope, steep, unit, code = View(SLOPE, slope=3).widget.children
    assert SLOPE.run({"slope": 3}) in result.value and "def draw_slope" in code.value
    slope.value, steep.value, unit.value = 5, True, 10
    assert SLOPE.run({"slope": 5, "steep": True, "unit": 10}) == "<p>500</p>"
    assert "<p>500</p>" in result.value and "<b>How steep</b>" in result.value


def test_without_ipywidgets_the_stored_html_is_all():
    def missing():
        raise ImportError

    assert bundle("<p>1</p>", "1", missing) == {"text/html": "<p>1</p>", "text/plain": "1"}


def test_an_experiment_is_found_by_name_and_starts_where_told():
    view = explore("ring", ranks=3)
    assert "Ranks: <b>3</b>" in view._repr_html_()
    with pytest.raises(InputError, match="ranks = 99"):
        explore("ring", ranks=99)


def test_the_result_stands_above_its_controls_and_minor_ones_fold():
    many = tuple(Range(name, name.upper(), 1, 9, 1, 2) for name in "abcde")
    view = View(Experiment("many", "Many", many, lambda **v: f"<p>{sum(v.values())}</p>", main=2))
    result, a, b, more, _ = view.widget.children
    assert "<p>10</p>" in result.value and more.titles == ("More settings",)
    assert [c.description for c in (a, b, *more.children[0].children)] == list("ABCDE")
    more.children[0].children[2].value = 9
    assert "<p>17</p>" in result.value


def test_a_slider_says_its_unit():
    shares = (Range("share", "Share", 1, 9, 1, 2, "%"), Range("step", "Step", 1, 9, 1, 2))
    _, *rows, _ = View(Experiment("shares", "Shares", shares, lambda **v: "")).widget.children
    assert [row.description for row in rows] == ["Share, %", "Step"]


def test_a_typed_line_keeps_only_its_letters():
    line = Line("row", "Row", "AB", 4, "AB")
    result, row, _ = View(
        Experiment("l", "L", (line,), lambda row: f"<p>{row}</p>")
    ).widget.children
    row.value = "BxB-B99BB"
    assert row.value == "BBBB" and "<p>BBBB</p>" in result.value
    assert row.continuous_update, "letter by letter"
    line = replace(line, whole=True)
    widget = View(Experiment("l", "L", (line,), lambda row: row)).widget
    assert not widget.children[1].continuous_update, "by Enter"
