"""Groups and knobs, before any page."""

from charts import boxes, widths

from mathlib.compute import params
from mathlib.explore import mics
from mathlib.show.experiments import find


def test_each_checkbox_changes_what_leaves_a_node():
    said = {
        find("sharding-groups").run({"gather": gather, "scatter": scatter}).partition("</b> to")[0]
        for gather in (True, False)
        for scatter in (True, False)
    }
    assert len({one.rpartition("<b>")[2] for one in said}) == 4


def test_the_picture_shows_so_many_nodes_and_says_how_many_are_left():
    html = find("sharding-groups").run({"nodes": 64, "shard": 512})
    assert "and 58 nodes more" in html and "1 replica of the model" in html
    ranks = [hint for hint in boxes(widths(html)[0]) if hint.startswith("rank ")]
    assert len(ranks) == 8 * mics.DRAWN


def test_a_degree_that_does_not_divide_is_refused_with_the_list():
    html = find("sharding-groups").run({"nodes": 1, "shard": 16})
    assert "accepted: 1, 2, 4, 8" in html


def test_the_page_s_threshold_leaves_two_tensors_of_three_whole():
    tensors = params.tensors("gpt-neox-20b")
    assert sum(n for size, n in tensors.items() if size < 1e6) / sum(tensors.values()) > 0.66
    low, high = (find("sharding-knobs").run({"threshold": size}) for size in (1, 2**20))
    assert "532 of 532 tensors" in low and "178 of 532 tensors" in high
