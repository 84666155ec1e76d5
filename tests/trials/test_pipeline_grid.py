"""Eight ranks along three axes: one process's losses, and others with an axis cut."""

from mathlib.model import oracle
from mathlib.trials import pipeline_grid as grid


def test_each_of_the_three_axes_is_needed():
    far, shares = grid.in_three()
    assert far.pop("") < oracle.EQUAL < 1e-3 < min(far.values()) and len(far) == 3
    for weights, states in shares:
        assert weights < 0.3 and abs(states / weights - 0.5) < 0.01


def test_the_batch_of_gpt3_feeds_48_replicas():
    assert grid.fed() == 48 and grid.fed(stages=1, each=1) == 1562
