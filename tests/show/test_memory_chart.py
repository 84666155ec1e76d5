"""Bands as high as their bytes, phases where they end, the peak in words."""

import pytest
from charts import SPACE, drawn, points, said, unreadable, words

from mathlib.show import memory_line
from mathlib.show.memory_chart import HIGH
from mathlib.show.roles import ROLES

ROWS = [{"weights": 1000, "gradients": 0, "activations": a, "logits": 0} for a in (0, 500, 3000, 0)]
ROWS[3]["gradients"] = 1000
MARKS = [(1, "init"), (3, "forward"), (4, "backward")]


def bands(chart):
    """Corners of each kind's band, by its colour."""
    return {
        p.get("fill"): points(p)
        for p in chart.iter(f"{SPACE}path")
        if p.get("fill") and p.get("d").endswith("Z")
    }


def corners(chart):
    """Left and right edge, foot and head of all bands together."""
    xs, ys = zip(*(p for band in bands(chart).values() for p in band), strict=True)
    return min(xs), max(xs), max(ys), max(ys) - HIGH


def test_a_band_is_as_high_as_its_bytes():
    chart = drawn(memory_line(ROWS, MARKS, title="T"))
    found = bands(chart)
    left, right, foot, head = corners(chart)
    unit = HIGH / 4000  # a byte, where the greatest total fills the height
    column = (right - left) / 4
    weights, activations = (found[ROLES[kind][0]] for kind in ("weights", "activations"))
    low, high = sorted({y for _, y in weights}, reverse=True)
    assert low == foot and high == pytest.approx(foot - 1000 * unit, abs=0.06)
    assert min(y for _, y in activations) == pytest.approx(head, abs=0.06)
    top = [x for x, y in activations if y == pytest.approx(head, abs=0.06)]
    assert top == [
        pytest.approx(left + 2 * column, abs=0.06),
        pytest.approx(left + 3 * column, abs=0.06),
    ]


def test_a_kind_stands_on_those_before_it():
    chart = drawn(memory_line(ROWS, MARKS, title="T"))
    found, unit = bands(chart), HIGH / 4000
    foot = corners(chart)[2]
    gradients = {y for _, y in found[ROLES["gradients"][0]]}
    assert min(gradients) == pytest.approx(foot - 2000 * unit, abs=0.06), "on the weights"
    assert foot not in gradients


def test_a_kind_that_never_lives_is_not_named():
    chart = drawn(memory_line(ROWS, MARKS, title="T"))
    assert "logits" not in words(chart) and {"weights", "gradients", "activations"} <= set(
        words(chart)
    )


def test_the_peak_is_told_with_its_phase_and_its_parts():
    shown = memory_line(ROWS, MARKS, title="T")
    told = "Peak 4 kB during forward: weights 1 kB, gradients 0 byte, activations 3 kB"
    assert repr(shown) == f"T. {told}" and said(drawn(shown)) == f"{told}."


def test_the_peak_is_marked_where_it_is_asked_for():
    chart = drawn(memory_line(ROWS, MARKS, title="T", peak=True))
    (dot,) = [p for p in chart.iter(f"{SPACE}path") if p.get("transform")]
    left, right, _, head = corners(chart)
    x, y = map(float, dot.get("transform")[len("translate(") : -1].split())
    assert (x, y) == (pytest.approx(left + 2.5 * (right - left) / 4, abs=0.06), head)
    assert "4 kB" in words(chart) and dot.find(f"{SPACE}title").text == "4 kB"
    plain = drawn(memory_line(ROWS, MARKS, title="T"))
    assert not [p for p in plain.iter(f"{SPACE}path") if p.get("transform")]
    assert not unreadable(memory_line(ROWS, MARKS, title="T", peak=True))


def test_an_event_belongs_to_the_phase_that_has_not_ended_before_it():
    told = said(drawn(memory_line(ROWS, [(2, "forward"), (4, "backward")], title="T")))
    assert told.startswith("Peak 4 kB during backward")


def test_a_limit_is_drawn_at_its_height_even_above_everything():
    chart = drawn(memory_line(ROWS, MARKS, title="T", limit=8000, limit_label="a device"))
    assert "a device: 8 kB" in words(chart)
    (line,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "6 3"]
    left, _, foot, head = corners(chart)
    assert points(line)[0] == (left, head)
    highest = min(y for _, y in bands(chart)[ROLES["activations"][0]])
    assert highest == pytest.approx(foot - HIGH / 2, abs=0.06)
    assert not unreadable(memory_line(ROWS, MARKS, title="T", limit=8000))


def test_phases_end_where_they_end_and_narrow_ones_are_shortened():
    rows = [dict(ROWS[i % 4]) for i in range(100)]
    marks = [(1, "init"), (8, "forward"), (10, "x"), (100, "backward")]
    chart = drawn(memory_line(rows, marks, title="T"))
    ends = [
        points(p)[0][0] for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "3 3"
    ]
    left, right, *_ = corners(chart)
    column = (right - left) / 100
    assert ends == [pytest.approx(left + end * column, abs=0.06) for end, _ in marks]
    assert {"fwd", "backward"} <= set(words(chart)) and not {"init", "x"} & set(words(chart))


def test_thousands_of_events_of_one_size_are_two_corners():
    rows = [{"weights": 1000}] * 5000
    (band,) = bands(drawn(memory_line(rows, [(5000, "forward")], title="T"))).values()
    assert len(band) == 4


def test_names_are_escaped():
    assert "a &lt; b" in memory_line(ROWS, MARKS, title="a < b")._repr_html_()
