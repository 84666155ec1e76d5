"""Bars and timelines: as long as their numbers, inside the picture, and told in words."""

import pytest
from charts import SPACE, boxes, drawn, frame, outside, said, unreadable, widths, words
from hypothesis import given
from hypothesis import strategies as st

from mathlib.show import svg
from mathlib.show.kit.sheet import NARROW, WIDE
from mathlib.show.roles import ROLES


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB"


def test_stacked_bars_are_as_long_as_their_numbers():
    rows = [("a", {"weights": 10e9, "idle": 30e9}), ("b", {"weights": 20e9})]
    width = {h: b[2] for h, b in boxes(drawn(svg.bars(rows, title="t", show=gigabytes))).items()}
    assert width["a, idle: 30.0 GB"] == pytest.approx(3 * width["a, weights: 10.0 GB"], abs=0.3)
    assert width["b, weights: 20.0 GB"] == pytest.approx(2 * width["a, weights: 10.0 GB"], abs=0.2)


def test_a_part_stands_where_the_one_before_it_ends():
    rows = [("a", {"weights": 10e9, "idle": 30e9, "rule": 5e9})]
    (_, *places) = [("", 0), *boxes(drawn(svg.bars(rows, title="t", show=gigabytes))).values()]
    for (x, y, width, _), (after, same, *_) in zip(places, places[1:], strict=False):
        assert after == pytest.approx(x + width, abs=0.11) and same == y


def test_what_passes_the_limit_is_crossed_out_and_said():
    rows = [("small", {"weights": 60e9}), ("large", {"weights": 90e9})]
    chart = drawn(svg.bars(rows, title="t", show=gigabytes, limit=80e9))
    (cross,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-linecap") == "round"]
    top = float(cross.get("d").split("L")[0].split()[1])
    assert top > boxes(chart)["large, weights: 90.0 GB"][1], "the cross is on another bar"
    assert "large: 90.0 GB, over the limit" in said(chart)
    assert "small: 60.0 GB, over" not in said(chart) and "limit: 80.0 GB" in said(chart)


def test_what_just_reaches_the_limit_is_not_beyond_it():
    chart = svg.bars([("a", {"weights": 80e9})], title="t", show=gigabytes, limit=80e9)
    assert "over the limit" not in chart and 'stroke-linecap="round"' not in chart


def test_charts_carry_their_words_and_no_id_twice():
    rows = [[("a", {"weights": 1, "gradients": n})] for n in (2, 3)]
    charts = [drawn(svg.bars(row, title="T & t", show=str)) for row in rows]
    ids = [{e.get("id") for e in chart.iter() if e.get("id")} for chart in charts]
    assert not ids[0] & ids[1]
    for chart, own in zip(charts, ids, strict=True):
        assert chart.get("role") == "img" and chart.findtext(f"{SPACE}title") == "T & t"
        assert set(chart.get("aria-labelledby").split()) <= own
        hatches = [p for p in chart.iter(f"{SPACE}path") if p.get("class") == "mlx-hatch"]
        assert len(hatches) == 1, "gradients have one"
        assert hatches[0].get("fill")[5:-1] in own, "a hatch that is not there"


@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=6), st.floats(1, 1e15))
def test_bars_stay_inside_the_picture(values, limit):
    parts = {f"p{i}": v for i, v in enumerate(values)}
    html = svg.bars([("row", parts)], title="t", show=lambda v: f"{v:.3g}", limit=limit)
    assert not unreadable(html)
    legend = looks_of(drawn(html))
    assert len(set(legend)) == len(legend) == (len(values) if len(values) > 1 else 0)


def looks_of(chart):
    """The colour of every swatch in the legend."""
    return [r.get("fill") for r in chart.iter(f"{SPACE}rect") if r.get("width") == "13"]


def test_a_long_name_is_broken_and_its_total_stands_beside_it():
    name = "a recipe whose name needs more than one line of such a picture, " * 2 + "as it is"
    chart = drawn(svg.bars([(name, {"weights": 1e9})], title="t", show=gigabytes))
    lines = [word for word in words(chart) if word in name and word != "t"]
    assert len(lines) > 1 and " ".join(lines) == name
    assert not outside(chart)


def test_nothing_at_all_is_a_picture_too():
    assert "0.0 GB" in words(drawn(svg.bars([("a", {"weights": 0})], title="t", show=gigabytes)))


LINES = [("rank 0", [("forward", 0, 1, "F0"), ("idle", 1, 2, "wait"), ("backward", 2, 4, "B0")])]


def test_timeline_places_events_in_time():
    html = svg.timeline(LINES, title="t", show=lambda s: f"{s:g} s", axis_title="time")
    chart = drawn(html)
    box = {hint: (x, width) for hint, (x, _, width, _) in boxes(chart).items()}
    forward, backward = box["rank 0, F0: 0 s to 1 s"], box["rank 0, B0: 2 s to 4 s"]
    assert backward[1] == pytest.approx(2 * forward[1], abs=0.2)
    assert backward[0] == pytest.approx(forward[0] + 2 * forward[1], abs=0.2)
    assert "backward 2 s" in said(chart) and not unreadable(html)


def test_boxes_too_narrow_to_point_at_are_one_path_of_their_colour():
    events = [("forward", i / 400, (i + 1) / 400, f"F{i}") for i in range(400)]
    lines = [("rank 0", [*events, ("backward", 1, 2, "B0")])]
    html = svg.timeline(lines, title="t", show=lambda s: f"{s:g} s", axis_title="time")
    chart = drawn(html)
    assert [hint for hint in boxes(chart) if hint] == ["rank 0, B0: 1 s to 2 s"]
    colour, _ = ROLES["forward"]
    (path,) = [p for p in chart.iter(f"{SPACE}path") if p.get("fill") == colour]
    assert path.get("d").count("M") == 400
    assert "forward 1 s" in said(chart)


def test_times_on_the_axis_stand_where_their_events_begin():
    chart = drawn(svg.timeline(LINES, title="t", show=lambda s: f"{s:g} s", axis_title="time"))
    ticks = {t.text: float(t.get("x")) for t in chart.iter(f"{SPACE}text")}
    box = boxes(chart)
    assert ticks["1 s"] == pytest.approx(box["rank 0, wait: 1 s to 2 s"][0], abs=0.11)
    assert ticks["2 s"] == pytest.approx(box["rank 0, B0: 2 s to 4 s"][0], abs=0.11)


def test_time_spent_in_a_role_is_added_up_in_words():
    lines = [("r", [("idle", 0, 1, "a"), ("forward", 1, 2, "b"), ("idle", 2, 5, "c")])]
    chart = drawn(svg.timeline(lines, title="t", show=lambda s: f"{s:g} s", axis_title="time"))
    assert said(chart) == "r: idle 4 s, forward 1 s."


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_few_and_within(low, width):
    marks = svg.ticks(low, low + width)
    slack = width * 1e-6
    assert len(marks) <= 12 and all(low - slack <= m <= low + width + slack for m in marks)


def test_words_in_a_picture_are_escaped():
    rows = [("<b>", {"a & b": 1.0})]
    chart = svg.bars(rows, title="x < y", show=str)
    assert "<b>" not in chart and "a &amp; b" in chart and "x &lt; y" in chart


def test_a_role_is_drawn_in_its_colour():
    chart = drawn(svg.bars([("a", {"optimizer states": 1.0, "x": 1.0})], title="t", show=str))
    assert looks_of(chart)[0] == ROLES["optimizer"][0]


def test_hatches_are_there_for_print_and_not_seen_without_a_style_sheet():
    html = svg.bars([("a", {"gradients": 1.0})], title="t", show=str)
    for chart in widths(html):
        (hatch,) = [p for p in chart.iter(f"{SPACE}path") if p.get("class") == "mlx-hatch"]
        assert hatch.get("style") == "display:none"


def test_a_picture_has_two_widths_and_the_narrow_one_hides_by_itself():
    wide, narrow = widths(svg.bars([("a", {"weights": 1.0})], title="t", show=str))
    assert (frame(wide)[0], frame(narrow)[0]) == (WIDE, NARROW)
    assert "display:none" in narrow.get("style") and "display" not in wide.get("style")
    assert said(wide) == said(narrow)
