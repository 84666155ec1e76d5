"""Two ranks over a slow link: the plan by hand, and a run that is no faster than it."""

import pytest

from mathlib.trials import tensor_slow


def test_the_plan_is_half_the_pauses_and_four_sums():
    link = tensor_slow.LINKS[0]
    one = tensor_slow.beside(link)
    K = tensor_slow.NUMBER * tensor_slow.SHAPE.context * tensor_slow.SHAPE.width
    assert one.plan.amount("compute") == pytest.approx(3 * tensor_slow.PAUSE / 2)
    assert one.plan.amount("transfer") == pytest.approx(4 * K / link)
    assert one.seconds > 0.95 * one.planned  # no clock can make it faster
    assert one.planned > tensor_slow.SHAPE.layers * 3 * tensor_slow.PAUSE  # slower than one rank
