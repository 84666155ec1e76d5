"""A small graph: below what leads to it, inside the picture, coloured as told."""

import re

import pytest
from charts import SPACE, drawn, said, unreadable, words

from mathlib.checks import InputError
from mathlib.show import graph
from mathlib.show.drawing import MOST, NEUTRAL, drawing, layers
from mathlib.show.roles import ROLES

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]


def test_a_node_lies_below_all_that_lead_to_it():
    rows = layers([0, 1, 2, 3], DIAMOND)
    assert [sorted(row) for row in rows] == [[0], [1, 2], [3]]
    level = {n: i for i, row in enumerate(rows) for n in row}
    assert all(level[a] < level[b] for a, b in DIAMOND)


def test_a_layer_stands_in_the_order_of_its_parents():
    rows = layers([0, 1, 2, 3], [(0, 3), (1, 2)])
    assert rows == [[0, 1], [3, 2]], "3 hangs under 0, on the left"


def picture(**options):
    labels = {0: "x", 1: "w < v", 2: "*", 3: "+"}
    return drawn(drawing(labels, DIAMOND, title="T", **options))


def test_every_arrow_leaves_below_one_box_and_ends_on_top_of_another():
    chart = picture()
    boxes = [
        (float(r.get("x")), float(r.get("y")), float(r.get("width")), float(r.get("height")))
        for r in chart.iter(f"{SPACE}rect")
    ]
    bottoms = {(round(x + w / 2, 1), round(y + h, 1)) for x, y, w, h in boxes}
    tops = {(round(x + w / 2, 1), round(y, 1)) for x, y, w, _ in boxes}
    paths = [p.get("d") for p in chart.iter(f"{SPACE}path")]
    assert len(boxes) == 4 and len(paths) == len(DIAMOND)
    for path in paths:
        a, b, c, d, *head = map(float, re.findall(r"[\d.]+", path))
        assert head[2:4] == [c, d], "the head of the arrow is where it ends"
        assert any(abs(a - x) < 0.11 and abs(b - y) < 0.11 for x, y in bottoms)
        assert any(abs(c - x) < 0.11 and abs(d - y) < 0.11 for x, y in tops)
    assert not unreadable(drawing({0: "x", 1: "w < v", 2: "*", 3: "+"}, DIAMOND, title="T"))


def test_notes_and_marks_go_to_their_nodes():
    chart = picture(notes={1: "w = 3"}, marked={3: "gradients"})
    assert "w = 3" in words(chart) and "w < v" in words(chart)
    fills = [r.get("fill") for r in chart.iter(f"{SPACE}rect")]
    assert fills.count(ROLES["gradients"][0]) == 1 and fills.count(NEUTRAL[0]) == 3


def test_the_same_graph_is_told_in_words():
    assert said(picture()).startswith("x leads to w < v; x leads to *;")
    shown = graph([(5, "a"), (7, "b & c")], [(5, 7)], title="G", marked={7: "gradients"})
    assert ROLES["gradients"][0] in shown._repr_html_()
    assert repr(shown) == "G: a -> b & c" and "b &amp; c" in shown._repr_html_()


def test_more_than_can_be_read_is_refused():
    labels = dict.fromkeys(range(MOST + 1), "v")
    with pytest.raises(InputError, match=f"labels = {MOST + 1} nodes"):
        drawing(labels, [], title="T")
