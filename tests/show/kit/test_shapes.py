"""Shapes: as large as they say, and what they are made of inside them."""

import pytest
from charts import SPACE, boxes, unreadable, widths, words

from mathlib.show.kit import shapes
from mathlib.show.kit.canvas import Canvas
from mathlib.show.kit.sheet import NARROW, WIDE
from mathlib.show.roles import ROLES


def alone(make, width=WIDE):
    page = Canvas(width, "t")
    shape = make(page)
    page.row(shape)
    html = page.done("d")
    assert not unreadable(html)
    return shape, widths(html)[0]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_box_has_room_for_its_words(width):
    box, chart = alone(lambda page: page.box("some words", note="and a note"), width)
    (rect,) = chart.iter(f"{SPACE}rect")
    assert float(rect.get("width")) == pytest.approx(box.wide, abs=0.1)
    assert words(chart)[1:] == ["some words", "and a note"]


def test_a_solid_box_has_its_role_and_an_ink_that_can_be_read():
    _, chart = alone(lambda page: page.box("w", role="weights", solid=True))
    (rect,) = chart.iter(f"{SPACE}rect")
    assert rect.get("fill") == ROLES["weights"][0] and rect.get("fill-opacity") is None
    assert [t.get("fill") for t in chart.iter(f"{SPACE}text")][1] == "#fff"


def test_a_matrix_tells_its_shape_and_can_be_partly_filled():
    shape, chart = alone(
        lambda page: page.matrix(
            "W", rows=2, columns=3, role="weights", row_label="h", column_label="4h",
            filled=lambda r, c: c == 0,
        )
    )  # fmt: skip
    assert {"W", "h", "4h"} <= set(words(chart))
    solid = [r for r in chart.iter(f"{SPACE}rect") if r.get("fill-opacity") is None]
    assert len(solid) == 2 and shape.wide > 45 and shape.high > 30


def test_a_grid_has_a_cell_for_each_role_and_frames_for_none():
    _, chart = alone(lambda page: page.grid([["weights", None], ["gradients", "weights"]]))
    fills = [r.get("fill") for r in chart.iter(f"{SPACE}rect")]
    assert fills.count(ROLES["weights"][0]) == 2
    (frames,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-width") == ".8"]
    assert frames.get("d").count("M") == 1


def test_a_strip_is_cut_where_its_numbers_say():
    _, chart = alone(
        lambda page: page.strip([("a", 1, "weights"), ("b", 3, "gradients")], wide=200)
    )
    wide = {hint: place[2] for hint, place in boxes(chart).items()}
    assert wide == {"a": 50, "b": 150}


def test_shapes_beside_and_under_each_other_keep_their_distance():
    page = Canvas(WIDE)
    one, two = page.space(10, 20), page.space(30, 40)
    row, column = page.beside(one, two, gap=5), page.stacked(one, two, gap=5)
    assert (row.wide, row.high, column.wide, column.high) == (45, 40, 30, 65)
    assert [(x, y) for _, x, y in row.inner] == [(0, 10), (15, 0)]
    assert [(x, y) for _, x, y in column.inner] == [(10, 0), (0, 25)]


def test_a_ring_goes_round_from_the_top():
    page = Canvas(WIDE)
    dots = [page.space(2, 2) for _ in range(4)]
    ring = page.around(*dots, radius=10)
    assert [(round(x), round(y)) for _, x, y in ring.inner] == [
        (10, 0),
        (20, 10),
        (10, 20),
        (0, 10),
    ]
    assert (ring.wide, ring.high) == (22, 22)


def test_a_panel_is_as_wide_as_its_title():
    page = Canvas(WIDE)
    title = "a title that is wide"
    assert page.panel(title, page.space(5, 5)).wide == pytest.approx(page.wide(title, bold=True))


def test_no_role_is_grey():
    assert shapes.looked_up("") == shapes.NEUTRAL
    assert shapes.looked_up("gradients") == ROLES["gradients"]
