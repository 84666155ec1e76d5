"""Replicas, bytes and accumulation, as the formulas have them."""

import pytest
from charts import SPACE, boxes, drawn, words

from mathlib.show.schemes import data_parallel


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_rank_has_all_but_the_exchange(ranks):
    written = words(drawn(data_parallel.replicas(ranks)))
    assert written.count("weights") == written.count("gradients") == ranks
    assert written.count("all-reduce: the mean") == 1


def test_without_sync_there_is_one_message():
    hints = list(boxes(drawn(data_parallel.accumulation(3))))
    assert [hint for hint in hints if "all-reduce" in hint] == [
        "all-reduce after micro-batch 0",
        "all-reduce after micro-batch 1",
        "all-reduce after micro-batch 2",
    ], "the second panel's only message has the last hint again"


def test_both_ways_do_the_same_work():
    chart = drawn(data_parallel.accumulation(3))
    hints = [r.findtext(f"{SPACE}title") for r in chart.iter(f"{SPACE}rect")]
    assert hints.count("forward of micro-batch 2") == 2
    assert hints.count("all-reduce after micro-batch 2") == 2
    assert hints.count("all-reduce after micro-batch 0") == 1


def test_the_next_forward_waits_for_the_all_reduce():
    chart = drawn(data_parallel.accumulation(3))
    found: dict[str, tuple[float, float]] = {}
    for box in chart.iter(f"{SPACE}rect"):  # the first of a hint is in the upper panel
        begin, wide = float(box.get("x")), float(box.get("width"))
        found.setdefault(box.findtext(f"{SPACE}title"), (begin, begin + wide))
    for i in (0, 1):
        sent, following = (f"all-reduce after micro-batch {i}", f"forward of micro-batch {i + 1}")
        assert found[following][0] == pytest.approx(found[sent][1], abs=0.2)
    ends = [p.get("d") for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "2 3"]
    each, once = (float(end[1:].split()[0]) for end in ends)
    assert once < each


def test_each_version_says_where_its_step_ends():
    chart = drawn(data_parallel.four_versions())
    ticks = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "2 3"]
    ends = [float((p.get("d") or "M0")[1:].split()[0]) for p in ticks]
    assert len(ends) == 4 == words(chart).count("step ends")
    assert ends == sorted(ends, reverse=True), "the last version is the first to end"
    rights = [float(r.get("x")) + float(r.get("width")) for r in chart.iter(f"{SPACE}rect")]
    assert max(rights) == pytest.approx(ends[0], abs=0.2)
