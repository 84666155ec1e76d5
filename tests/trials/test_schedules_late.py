"""Versions that PipeDream keeps, its oracle, and steps without a flush between them."""

import pytest

from mathlib.model import oracle
from mathlib.trials import schedules_late as late


@pytest.mark.parametrize("p", [3, 5])
def test_stages_keep_a_version_for_each_micro_batch_in_flight(p):
    assert late.kept(p) == list(range(p, 0, -1))
    assert late.kept_in_sync(p) == [p] * p


def test_stashing_is_what_makes_weights_those_of_late_gradients():
    found = late.three_ways()
    assert [kept for _, kept in found.values()] == [[4, 3, 2, 1], [2] * 4, [1] * 4]
    stashed, double, without = (far for far, _ in found.values())
    assert max(stashed, double) < oracle.EQUAL < 1e-3 < without


def test_without_a_flush_zb_h2_and_zb_v_never_wait():
    for order, each in (("1f1b", 33), ("zb-h1", 27), ("zb-h2", 24), ("zb-v", 24)):
        assert late.in_a_row(order, 4) - late.in_a_row(order, 3) == each
