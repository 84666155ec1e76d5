"""Who sends to whom: every pair in its cell, as dark as it is much, and what leaves a node."""

import re

import pytest
from charts import SPACE, drawn, unreadable, words

from mathlib.show import links

RING = [{1: 100}, {2: 400}, {3: 100}, {0: 400}]


def cells(chart):
    """Hint of each filled cell: its left and top edge, and how dark it is."""
    found = {}
    for path in chart.iter(f"{SPACE}path"):
        if path.get("fill-opacity"):
            x, y = map(float, re.match(r"M([\d.]+) ([\d.]+)", path.get("d")).groups())
            found[path.findtext(f"{SPACE}title")] = (x, y, float(path.get("fill-opacity")))
    return found


def test_links_are_dark_where_much_is_sent_and_tell_what_crosses_the_nodes():
    shown = links({"a & b": RING}, node=2, title="Who")
    assert repr(shown) == "Who: a & b: 1 kB in all, 800 B between nodes"
    dark = sorted(opacity for *_, opacity in cells(drawn(shown)).values())
    assert dark == [0.36, 0.36, 1.0, 1.0], "the fullest"
    assert "<title>a &amp; b: rank 1 sends 400 B to rank 2</title>" in shown._repr_html_()


def test_rows_send_and_columns_receive():
    found = cells(drawn(links({"ring": RING}, node=2, title="Who")))
    side = 4 * (
        found["ring: rank 1 sends 400 B to rank 2"][0]
        - found["ring: rank 0 sends 100 B to rank 1"][0]
    )
    x0, y0, _ = found["ring: rank 3 sends 400 B to rank 0"]
    x1, y1, _ = found["ring: rank 0 sends 100 B to rank 1"]
    assert side > 100 and (x1 - x0, y0 - y1) == (
        pytest.approx(side / 4, abs=0.2),
        pytest.approx(3 * side / 4, abs=0.2),
    )


def test_several_squares_share_one_scale_and_stay_inside():
    sent = {"ring": RING, "tree": [{1: 200}, {}, {}, {}], "third": [{2: 100}, {}, {}, {}]}
    chart = drawn(links(sent, node=2, title="Who"))
    found = cells(chart)
    assert found["tree: rank 0 sends 200 B to rank 1"][2] == pytest.approx(
        0.15 + 0.85 / 2, abs=0.01
    )
    assert {"ring", "tree", "third"} <= set(words(chart))
    assert " ".join(words(chart)).count("between nodes") == 3
    assert not unreadable(links(sent, node=2, title="Who"))


def test_a_line_is_heavy_where_a_node_ends():
    lines = drawn(links({"ring": RING}, node=2, title="Who")).iter(f"{SPACE}path")
    heavy = [p.get("stroke-width") for p in lines if p.get("stroke-width")]
    assert heavy == ["1.5", "0.4", "1.5", "0.4", "1.5"]


def test_nobody_sends_anything():
    assert repr(links({"idle": [{}, {}]}, node=1, title="Who")).startswith(
        "Who: idle: 0 byte in all"
    )
