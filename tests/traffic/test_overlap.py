"""Buckets on a clock: bounds that hold whatever the numbers are, and two cases worked out by
hand.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.traffic import comm, overlap

TIMES = st.floats(1e-3, 1e3)
SETTINGS = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 40),
        "ranks": st.integers(2, 64),
        "backward": TIMES,
        "payload": TIMES,
        "bucket": st.floats(1, 1e3),
        "bandwidth": TIMES,
        "latency": st.floats(0, 1),
    }
)


@given(SETTINGS)
def test_the_wire_is_never_in_two_places_and_never_early(settings):
    step = overlap.bucketed(**settings)
    for before, after in zip(step.buckets, step.buckets[1:], strict=False):
        assert after.start >= before.end
    assert step.buckets[0].start >= step.backward[0].end * 0.999
    assert (
        step.buckets[-1].start >= step.backward[-1].end * 0.999
    )  # the first layer's gradient is the last
    assert 0 <= step.hidden <= 1


@given(SETTINGS)
def test_what_is_sent_does_not_depend_on_the_buckets(settings):
    settings["latency"] = 0.0
    whole = comm.time(
        "all-reduce",
        payload=settings["payload"],
        ranks=settings["ranks"],
        bandwidth=settings["bandwidth"],
    )
    sent = sum(b.end - b.start for b in overlap.bucketed(**settings).buckets)
    assert sent == pytest.approx(whole.total)


def test_one_bucket_hides_nothing():
    step = overlap.bucketed(
        layers=8, ranks=4, backward=1.0, payload=8.0, bucket=8.0, bandwidth=12.0
    )
    assert step.hidden == 0 and step.exposed == pytest.approx(2 * 8 * 3 / 4 / 12)


def test_a_bucket_a_layer_hides_all_but_the_last_when_the_wire_keeps_up():
    step = overlap.bucketed(
        layers=8, ranks=4, backward=1.0, payload=8.0, bucket=1.0, bandwidth=12.0
    )
    assert step.exposed == pytest.approx(2 * 1 * 3 / 4 / 12) and step.hidden == pytest.approx(7 / 8)


def test_latency_punishes_small_buckets():
    settings = {
        "layers": 32,
        "ranks": 8,
        "backward": 1.0,
        "payload": 1.0,
        "bandwidth": 10.0,
        "latency": 0.01,
    }
    waits = [overlap.bucketed(**settings, bucket=b).exposed for b in (1 / 32, 1 / 4, 1.0)]
    assert waits[1] < waits[0] and waits[1] < waits[2]


def test_a_layer_larger_than_a_bucket_is_cut():
    step = overlap.bucketed(
        layers=2, ranks=2, backward=2.0, payload=4.0, bucket=0.75, bandwidth=10.0
    )
    assert len(step.buckets) == 6, "two full buckets and a half for each layer"
    times = [(b.start, b.end) for b in step.buckets]
    assert [t for pair in times for t in pair] == pytest.approx(
        [1, 1.075, 1.075, 1.15, 1.15, 1.2, 2, 2.075, 2.075, 2.15, 2.15, 2.2]
    )
