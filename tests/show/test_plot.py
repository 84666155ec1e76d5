"""Curves on their axes, and what a logarithmic axis refuses."""

import math

import pytest
from charts import (
    SPACE,
    bold,
    curves,
    drawn,
    marked,
    outside,
    points,
    said,
    struck,
    unreadable,
    words,
)
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.show import plot
from mathlib.show.kit import letters
from mathlib.show.roles import ROLES


def plotted(series, show=str, **options):
    chart = plot.lines(
        series, title="t", x_title="x", y_title="y", show_x=show, show_y=show, **options
    )
    return drawn(chart)


def axis(chart):
    """Height of the level axis, and where it begins."""
    (line,) = [
        p
        for p in chart.iter(f"{SPACE}path")
        if p.get("stroke-opacity") == "0.6" and "H" in p.get("d")
    ]
    ((left, low),) = points(line)
    return low, left


@given(
    st.lists(st.tuples(st.floats(1, 1e12), st.floats(1, 1e12)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_curves_stay_inside_their_axes(curve, log_x, log_y):
    chart = plotted({"c": sorted(curve)}, lambda v: f"{v:.1g}", log_x=log_x, log_y=log_y)
    (drawn_curve,) = curves(chart)
    assert len(drawn_curve) == len(curve)
    low, left = axis(chart)
    for x, y in drawn_curve:
        assert left - 1 <= x <= 680 and low - plot.HIGH - 1 <= y <= low + 1


def test_a_logarithmic_axis_refuses_zero():
    with pytest.raises(InputError, match="logarithmic"):
        plotted({"c": [(0, 1)]}, log_x=True)


def test_equal_ratios_are_equal_steps_on_a_logarithmic_axis():
    (curve,) = curves(plotted({"c": [(1, 1), (10, 2), (100, 4)]}, log_x=True, log_y=True))
    (xa, ya), (xb, yb), (xc, yc) = curve
    assert xb - xa == pytest.approx(xc - xb, abs=0.2) and xa < xb < xc
    assert ya - yb == pytest.approx(yb - yc, abs=0.2) and ya > yb > yc, "upwards is more"


def test_a_linear_axis_begins_at_nothing():
    chart = plotted({"c": [(1, 5), (2, 10)]})
    ((_, ya), (_, yb)), (low, _) = curves(chart)[0], axis(chart)
    assert low - yb == pytest.approx(2 * (low - ya), abs=0.2)


def test_a_tick_stands_where_its_number_is():
    chart = plotted({"c": [(1, 1), (10000, 10000)]}, lambda v: f"{v:g}", log_x=True, log_y=True)
    ticks = {t.text: float(t.get("x")) for t in chart.iter(f"{SPACE}text")}
    ((xa, _), (xb, _)) = curves(chart)[0]
    assert ticks["100"] == pytest.approx((xa + xb) / 2, abs=0.11)


def test_a_limit_is_drawn_at_its_height_and_said():
    chart = plotted({"c": [(1, 10), (2, 5)]}, lambda v: f"{v:g}", limit=10.0, limit_label="most")
    (line,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "6 3"]
    (curve,) = curves(chart)
    assert points(line)[0][1] == pytest.approx(curve[0][1], abs=0.11)
    assert "most: 10" in words(chart) and said(chart).endswith("most: 10.")
    assert not outside(chart)


def test_a_band_lies_between_its_ends_and_is_said():
    curve = {"c": [(100, 1), (200, 2), (1600, 3)]}
    chart = plotted(curve, lambda v: f"{v:g}", log_x=True, band=(100, 200), band_label="his")
    (stripe,) = [p for p in chart.iter(f"{SPACE}path") if p.get("fill-opacity") == "0.22"]
    first, second, _ = curves(chart)[0]
    (left, high), wide = points(stripe)[0], float(stripe.get("d").partition("h")[2].split("v")[0])
    assert left == pytest.approx(first[0], abs=0.11)
    assert left + wide == pytest.approx(second[0], abs=0.11) and high < second[1]
    assert "his: 100 to 200" in said(chart) and "his" in words(chart) and not outside(chart)
    assert "range" not in said(plotted(curve))


def test_an_axis_reaches_as_far_as_the_ticks_it_is_given():
    chart = plotted(
        {"c": [(16, 49), (256, 99)]}, log_x=True, x_ticks=(8, 64, 256), y_ticks=(40, 100)
    )
    assert [word for word in words(chart) if word.isdigit()] == ["40", "100", "8", "64", "256"]
    low, left = axis(chart)
    first, last = curves(chart)[0]
    assert first[0] > left + 50 and first[1] < low - 10 and not outside(chart)


def test_a_marked_place_is_drawn_over_the_whole_height_and_said():
    given = {"log_x": True, "mark": 41.0, "mark_label": "the default"}
    chart = plotted({"c": [(41, 1), (2000, 2)]}, lambda v: f"{v:g}", **given)
    (line,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "5 4"]
    first, _ = curves(chart)[0]
    assert points(line)[0] == pytest.approx((first[0], axis(chart)[0]), abs=0.11)
    assert "the default: 41" in said(chart) and "the default" in words(chart) and not outside(chart)
    assert "mark" not in said(plotted({"c": [(41, 1), (2000, 2)]}))


def test_a_ring_stands_around_the_lowest_points():
    curve = {"c": [(1, 5), (2, 3), (3, 3), (4, 8)]}
    chart = plotted(curve, lambda v: f"{v:g}", lowest=True)
    rings = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-width") == "1.8"]
    starts = [tuple(map(float, p.get("d")[1:].split("a")[0].split())) for p in rings]
    _, second, third, _ = curves(chart)[0]
    assert starts == [pytest.approx((x - 9, y), abs=0.11) for x, y in (second, third)]
    assert "least 3" in said(chart)


def test_in_a_plane_one_is_as_long_upwards_as_across():
    path = {"way": [(0, 0), (1, 0), (1, 0.5)], "back": [(0, 0), (1, 0)]}
    chart = plotted(path, lambda v: f"{v:g}", equal=True)
    (x0, low), (x1, _), (_, high) = curves(chart)[0]
    assert low - high == pytest.approx((x1 - x0) / 2, abs=0.11)
    with pytest.raises(InputError, match="expected two linear axes"):
        plotted({"way": [(1, 1), (2, 2)]}, equal=True, log_x=True)


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


@pytest.mark.parametrize(("low", "high"), [(128, 8192), (1, 80), (700, 990), (5, 6), (1, 1e9)])
def test_a_logarithmic_axis_has_three_ticks_at_least(low, high):
    marks = plot.log_ticks(low, high)
    assert 3 <= len(marks) <= 10
    assert all(low * (1 - 1e-9) <= mark <= high * (1 + 1e-9) for mark in marks)


NAMES = ["ring", "tree", "halving"]


def test_few_short_names_stand_at_the_ends_of_their_curves():
    series = {name: [(1, 1), (2, 2 + i / 50)] for i, name in enumerate(NAMES)}
    html = plot.lines(series, title="t", x_title="x", y_title="y", show_x=str, show_y=str)
    assert not unreadable(html)
    ends = {t.text: t for t in drawn(html).iter(f"{SPACE}text")}
    for name, curve in zip(NAMES, curves(drawn(html)), strict=True):
        assert float(ends[name].get("x")) > curve[-1][0]
        assert abs(float(ends[name].get("y")) - curve[-1][1]) < 60


def test_long_names_stand_above():
    series = {"a name of many words that takes room" + name: [(1, 1), (2, 2)] for name in NAMES}
    html = plot.lines(series, title="t", x_title="x", y_title="y", show_x=str, show_y=str)
    assert not unreadable(html)
    chart = drawn(html)
    top = axis(chart)[0] - plot.HIGH
    assert all(float(t.get("y")) < top for t in chart.iter(f"{SPACE}text") if t.text in series)


def test_a_curve_named_as_a_role_has_its_colour():
    chart = plotted({"measured": [(1, 1), (2, 2)], "predicted": [(1, 1), (2, 2)]})
    colours = [p.get("stroke") for p in chart.iter(f"{SPACE}path")]
    assert {ROLES["measured"][0], ROLES["predicted"][0]} <= set(colours)


def test_the_two_axes_words_stay_apart_with_a_limit_at_the_top():
    html = plot.lines(
        {"c": [(1, 1), (2, 2)]},
        title="t",
        x_title="x",
        y_title="a title of an axis that is long enough",
        show_x=str,
        show_y=str,
        limit=2,
        limit_label="a limit with a long name",
    )
    assert not unreadable(html)


@pytest.mark.parametrize("n", [1, 39, 40, 41, 100, 1000])
def test_markers_stand_all_along_a_curve(n):
    chart = plotted({"a": [(float(i), float(i)) for i in range(1, n + 1)]})
    hints = [t.text for t in chart.iter(f"{SPACE}title") if t.text.startswith("a: ")]
    marked = [float(hint.removeprefix("a: ").split(",")[0]) for hint in hints]
    assert marked[0] == 1 and len(marked) <= plot.MARKED
    assert n - marked[-1] < max(1, 2 * n / plot.MARKED)
    steps = {b - a for a, b in zip(marked, marked[1:], strict=False)}
    assert len(steps) <= 1


def named(chart):
    """Where the words of a chart begin, and at what height."""
    return {t.text: (float(t.get("x")), float(t.get("y"))) for t in chart.iter(f"{SPACE}text")}


def test_a_points_name_covers_no_curve():
    rising = {"up": [(0, 0), (10, 10)], "level": [(0, 5), (10, 5)], "here": [(5, 5)]}
    x, y = named(plotted(rising))["here"]
    (mx, my), wide = curves(plotted(rising))[2][0], letters.width("here", 13, True)
    assert abs(x - mx) < wide + 12 and abs(y - my) < 20, "beside its point"
    for curve in curves(plotted(rising))[:2]:
        (ax, ay), (bx, by) = curve
        covered = [ay + (by - ay) * (at - ax) / (bx - ax) for at in (x, x + wide / 2, x + wide)]
        assert not any(y - 9 < high < y for high in covered)


def test_a_points_name_stays_above_the_axis():
    crowded = {"one": [(0, 9), (2, 0.4), (9, 0.3)], "other": [(0, 5), (9, 1)], "here": [(2, 0.1)]}
    chart = plotted(crowded)
    assert named(chart)["here"][1] < axis(chart)[0] + 5


def test_a_points_name_does_not_stand_on_the_axis():
    hill = [(0, 0.3), (3, 1.7), (4, 1.5), (5, 0.5), (9, 1.0)]
    chart = plotted({"curve": hill, "top": [(0, 9), (9, 9)], "here": [(4, 0.4)]})
    (_, y), (low, _) = named(chart)["here"], axis(chart)
    assert y + 4 <= low, "its letters end above the line"


def test_a_point_has_its_name_beside_it_where_curves_have_theirs_above():
    long = {"a name of many words that takes room" + name: [(1, 1), (2, 2)] for name in NAMES}
    chart = plotted(long | {"here": [(1.5, 1.2)]})
    (at, high), (x, y) = curves(chart)[-1][0], named(chart)["here"]
    assert abs(x - at) < 60 and abs(y - high) < 20


@pytest.mark.parametrize(("right", "below", "where"), [(1, 0.2, 0), (2, 0.2, 1), (2, 1.9, 2)])
def test_a_curve_that_ends_early_has_its_name_there_unless_something_is(right, below, where):
    others = {"long": [(2.1, right), (9, right)], "under": [(1, below), (9, below)]}
    chart = plotted({"short": [(1, 2), (2, 2)], **others})
    (end, high), (x, y) = curves(chart)[0][-1], named(chart)["short"]
    half = letters.width("short", 13, True) / 2
    assert [
        (x, y) == pytest.approx((end + 9, high + 4), abs=0.2),
        (x, y) == pytest.approx((end - half, high + 20), abs=0.2),
        x > curves(chart)[1][-1][0],  # at the right edge
    ].index(True) == where


def test_a_curve_that_ends_among_others_is_named_beside_itself():
    series = {"short": [(1, 1), (2, 2)], "on": [(2, 2), (9, 4)], "above": [(1, 2), (2, 3), (9, 9)]}
    for low in (1, 20):
        for drawing in (series, {"short": [(1, 9), (2, 0)], "you": [(2, 0)], "none": [(low, 0)]}):
            chart = plotted(drawing, lambda v: f"{v:g}", mark=1.9, mark_label="here", beside=True)
            left, right, y = bold(chart)["short"]
            own = marked(chart)["short"]
            near = [math.dist(p, (min(max(p[0], left), right), y)) for p in own]
            assert min(near) < 30 and not struck(chart)
