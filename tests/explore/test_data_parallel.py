"""Buckets on the wire: what is drawn is what was computed, and said as it is."""

import re

import pytest
from charts import boxes, drawn, outside

from mathlib.explore import data_parallel
from mathlib.show.experiments import find
from mathlib.traffic import overlap


def test_more_buckets_than_can_be_told_apart_are_drawn_as_stretches():
    """The wire is as busy as before; only the borders between buckets that touch are gone."""
    busy = [[(i + j / 200, i + (j + 1) / 200) for j in range(100)] for i in range(4)]
    spans = [span for touching in busy for span in touching]
    buckets = [overlap.Span(f"bucket {i}", *span) for i, span in enumerate(spans)]
    few = data_parallel._stretches(buckets[:50])
    assert few == [(b.start, b.end, b.what) for b in buckets[:50]]
    shown = data_parallel._stretches(buckets)
    assert [what for *_, what in shown] == [f"bucket {i} to {i + 99}" for i in (0, 100, 200, 300)]
    assert sum(b - a for a, b, _ in shown) == pytest.approx(sum(b.end - b.start for b in buckets))


def test_every_bucket_is_drawn_and_counted():
    html = find("buckets").run({"layers": 8, "megabytes": 1000, "bucket": 64})
    chart = drawn(html)
    wire = [hint for hint in boxes(chart) if hint.startswith("wire, ")]
    rank = [hint for hint in boxes(chart) if hint.startswith("rank, ")]
    assert f"in {len(wire)} buckets" in html and len(wire) > 1 and len(rank) == 8 + 1
    assert not outside(chart)


def test_each_stop_packs_other_buckets_and_neither_end_is_the_best():
    """With the other settings as they stand, for 8 ranks and for 64."""
    for ranks, best in ((8, 8), (64, 256)):
        found = [waits(bucket, ranks) for bucket in data_parallel.BUCKETS]
        assert len({count for _, count in found}) == len(found)
        assert data_parallel.BUCKETS[found.index(min(found))] == best


def waits(bucket: int, ranks: int) -> tuple[float, int]:
    """Milliseconds of waiting, and the number of buckets, as the page says them."""
    html = find("buckets").run({"bucket": bucket, "ranks": ranks})
    told = re.search(r"waits <b>([\d.]+) (ms|µs)</b>.*?in (\d+) bucket", html)
    assert told, html[:300]
    return float(told[1]) * {"ms": 1, "µs": 1e-3}[told[2]], int(told[3])


def test_one_bucket_waits_for_the_end_of_backward():
    chart = drawn(find("buckets").run({"bucket": 2048}))
    (wire,) = [place for hint, place in boxes(chart).items() if hint.startswith("wire, ")]
    (wait,) = [place for hint, place in boxes(chart).items() if "the optimizer waits" in hint]
    assert (wait[0], wait[2]) == pytest.approx((wire[0], wire[2]), abs=0.2)
    assert "in 1 bucket of" in find("buckets").run({"bucket": 2048})
