"""Curves on their axes, and what a logarithmic axis refuses."""

import math

import pytest
from charts import SPACE, drawn, outside, points, said, words
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.show import plot


def plotted(series, show=str, **options):
    chart = plot.lines(
        series, title="t", x_title="x", y_title="y", show_x=show, show_y=show, **options
    )
    return drawn(chart)


def curves(chart):
    return [points(p) for p in chart.iter(f"{SPACE}path") if p.get("stroke-width") == "2.5"]


@given(
    st.lists(st.tuples(st.floats(1, 1e12), st.floats(1, 1e12)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_curves_stay_inside_their_axes(curve, log_x, log_y):
    chart = plotted({"c": sorted(curve)}, lambda v: f"{v:.1g}", log_x=log_x, log_y=log_y)
    (drawn_curve,) = curves(chart)
    assert len(drawn_curve) == len(curve)
    for x, y in drawn_curve:
        assert plot.LEFT - 1 <= x <= 400 and plot.TOP - 1 <= y <= plot.BOTTOM + 1


def test_a_logarithmic_axis_refuses_zero():
    with pytest.raises(InputError, match="logarithmic"):
        plotted({"c": [(0, 1)]}, log_x=True)


def test_equal_ratios_are_equal_steps_on_a_logarithmic_axis():
    (curve,) = curves(plotted({"c": [(1, 1), (10, 2), (100, 4)]}, log_x=True, log_y=True))
    (xa, ya), (xb, yb), (xc, yc) = curve
    assert xb - xa == pytest.approx(xc - xb, abs=0.2) and xa < xb < xc
    assert ya - yb == pytest.approx(yb - yc, abs=0.2) and ya > yb > yc, "upwards is more"


def test_a_linear_axis_begins_at_nothing():
    (curve,) = curves(plotted({"c": [(1, 5), (2, 10)]}))
    (_, ya), (_, yb) = curve
    assert plot.BOTTOM - yb == pytest.approx(2 * (plot.BOTTOM - ya), abs=0.2)


def test_a_tick_stands_where_its_number_is():
    chart = plotted({"c": [(1, 1), (1000, 1000)]}, lambda v: f"{v:g}", log_x=True, log_y=True)
    ticks = {t.text: float(t.get("x")) for t in chart.iter(f"{SPACE}text")}
    (curve,) = curves(chart)
    assert ticks["1000"] == pytest.approx(curve[-1][0], abs=0.11)


def test_a_limit_is_drawn_at_its_height_and_said():
    chart = plotted({"c": [(1, 10), (2, 5)]}, lambda v: f"{v:g}", limit=10.0, limit_label="most")
    (line,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "6 3"]
    (curve,) = curves(chart)
    assert points(line)[0][1] == pytest.approx(curve[0][1], abs=0.11)
    assert "most: 10" in words(chart) and said(chart).endswith("most: 10.")
    assert not outside(chart)


def test_a_limit_above_all_curves_stays_inside():
    assert not outside(plotted({"c": [(1, 1), (2, 2)]}, lambda v: f"{v:g}", limit=100.0))


def test_curves_are_told_apart_without_colour():
    series = {f"c{i}": [(1, i + 1), (2, i + 2)] for i in range(4)}
    chart = plotted(series)
    dashes = [
        p.get("stroke-dasharray")
        for p in chart.iter(f"{SPACE}path")
        if p.get("transform") is None and p.get("stroke-width") == "2.5"
    ]
    markers = {p.get("d") for p in chart.iter(f"{SPACE}path") if p.get("transform")}
    assert len(set(dashes)) == 4 and len(markers) == 4


@pytest.mark.parametrize(("low", "high"), [(1, 1e3), (3, 4e9), (1e-6, 1e12)])
def test_decades_are_powers_of_ten_between_the_ends(low, high):
    marks = plot.decades(low, high)
    assert 1 <= len(marks) <= 7 and low <= marks[0] and marks[-1] <= high
    assert all(math.log10(mark) == round(math.log10(mark)) for mark in marks)
