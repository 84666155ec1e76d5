"""Buckets on the wire: what is drawn is what was computed, and said as it is."""

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
    html = find("buckets").run({"layers": 8, "megabytes": 1024, "bucket": 64})
    chart = drawn(html)
    wire = [hint for hint in boxes(chart) if hint.startswith("wire, ")]
    backward = [hint for hint in boxes(chart) if hint.startswith("backward, ")]
    assert f"in {len(wire)} buckets" in html and len(wire) > 1 and len(backward) == 8
    assert not outside(chart)


def test_one_bucket_waits_for_the_end_of_backward():
    chart = drawn(find("buckets").run({"bucket": 16384}))
    (wire,) = [place for hint, place in boxes(chart).items() if hint.startswith("wire, ")]
    ends = [x + w for hint, (x, _, w, _) in boxes(chart).items() if hint.startswith("backward, ")]
    assert wire[0] == pytest.approx(max(ends), abs=0.2)
    assert "in 1 bucket." in find("buckets").run({"bucket": 16384})
