"""The canvas finds places; arrows go from edge to edge, braces lie beside what they hold."""

import re

import pytest
from charts import SPACE, ends, unreadable, widths

from mathlib.show.kit.canvas import AWAY, Canvas, Place
from mathlib.show.kit.sheet import WIDE


def paths(page):
    html = page.done("d")
    assert not unreadable(html)
    return [p.get("d") for p in widths(html)[0].iter(f"{SPACE}path")]


def test_a_row_stands_in_the_middle_below_what_is_there():
    page = Canvas(WIDE, "t")
    one, two = page.box("a"), page.box("b")
    page.row(one)
    page.row(two)
    first, second = page.places[one], page.places[two]
    assert first.centre[0] == pytest.approx(WIDE / 2) == pytest.approx(second.centre[0])
    assert second.y >= first.y + first.high + 10


def test_what_stands_inside_a_shape_has_a_place_too():
    page = Canvas(WIDE)
    dot = page.space(4, 4)
    page.row(page.panel("title", page.beside(page.space(10, 10), dot)))
    assert page.places[dot].wide == 4


def test_a_flow_breaks_where_the_width_ends_and_shares_out_the_rest():
    page = Canvas(WIDE)
    panels = [page.space(200, 50) for _ in range(4)]
    page.flow(*panels, gap=20)
    lines = {round(page.places[panel].y) for panel in panels}
    columns = {round(page.places[panel].x) for panel in panels}
    assert (len(lines), len(columns)) == (2, 2), "two and two, not three and one"


def test_an_arrow_goes_from_edge_to_edge():
    page = Canvas(WIDE)
    one, two = page.space(40, 20), page.space(40, 20)
    page.row(one, two, gap=100)
    page.arrow(one, two)
    a, b, c, d = map(float, re.findall(r"[\d.]+", paths(page)[0]))
    left, right = page.places[one], page.places[two]
    assert (a, c) == pytest.approx((left.x + 40 + AWAY, right.x - AWAY), abs=0.11)
    assert b == d == pytest.approx(left.centre[1], abs=0.06)


def test_an_arrows_words_stand_above_it_or_on_its_outer_side():
    page = Canvas(WIDE)
    one, two = page.space(40, 20), page.space(40, 20)
    page.row(one, two, gap=100, above=60)
    page.arrow(one, two, "straight")
    page.arrow(one, two, "bent", bend=-0.3)
    texts = {t.text: float(t.get("y")) for t in widths(page.done("d"))[0].iter(f"{SPACE}text")}
    middle = page.places[one].centre[1]
    assert texts["bent"] < texts["straight"] < middle


@pytest.mark.parametrize(("side", "below"), [("below", True), ("above", False)])
def test_a_brace_reaches_from_the_first_to_the_last(side, below):
    page = Canvas(WIDE, "t")
    one, two = page.box("a"), page.box("b")
    page.row(one, two, gap=50, above=50)
    page.brace(one, two, "both", side=side)
    first, last = page.places[one], page.places[two]
    (brace,) = [p for p in paths(page) if "q" in p]
    assert float(brace[1:].split(" ")[0]) == pytest.approx(first.x, abs=0.06)
    (label,) = [t for t in widths(page.done("d"))[0].iter(f"{SPACE}text") if t.text == "both"]
    assert (float(label.get("y")) > first.y + first.high) == below
    assert sum(ends(label)) / 2 == pytest.approx((first.x + last.x + last.wide) / 2, abs=0.1)


def test_an_edge_lies_on_the_way_to_the_point():
    place = Place(0, 0, 20, 10)
    assert place.edge((100, 5)) == (20 + AWAY, 5)
    assert place.edge((10, -50)) == (10, -AWAY)
    assert place.edge(place.centre) == place.centre
