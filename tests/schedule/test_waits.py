"""Laws of waiting, held against the event model and against chance played out."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mathlib.schedule import events, orders, programs, shares, waits
from mathlib.schedule.cluster import Cluster
from mathlib.schedule.times import Times

SPEED = some.sampled_from([0.25, 0.5, 1, 3])


@given(some.lists(SPEED, min_size=1, max_size=6))
def test_equal_shares_use_what_the_slowest_allows(speeds):
    n = len(speeds)
    equal = shares.slowest([1] * n, speeds=speeds)
    assert waits.used(speeds=speeds) == pytest.approx(n / equal / sum(speeds))


def test_some_rank_of_many_is_slow():
    draw, n, q = random.Random(0), 20, 0.03
    slow = [any(draw.random() < q for _ in range(n)) for _ in range(20_000)]
    share = sum(slow) / len(slow)
    assert waits.some_slow(ranks=n, chance=q) == pytest.approx(share, abs=0.01)
    assert waits.step(ranks=n, chance=q, times=3) == pytest.approx(1 + 2 * share, abs=0.03)
    assert waits.step(ranks=1, chance=1, times=3) == 3


@given(some.lists(SPEED, min_size=1, max_size=5), some.integers(1, 9))
def test_a_pipeline_of_unequal_stages_takes_what_the_law_says_or_less(speeds, m):
    cluster = Cluster((1,) * len(speeds), speeds=dict(enumerate(speeds)))
    law = waits.flushed(seconds=[3 / speed for speed in speeds], micro_batches=m)
    took = {}
    for order in ("gpipe", "1f1b"):
        schedule = orders.make(order, stages=len(speeds), micro_batches=m)
        took[order] = events.run(programs.pipeline(schedule, Times(1.0, 2.0)), cluster).total
    assert took["gpipe"] == pytest.approx(law)
    assert took["1f1b"] <= law * (1 + 1e-9)
