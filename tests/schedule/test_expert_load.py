"""Loads of experts, counted by hand."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import expert_load


def test_what_the_slowest_rank_costs():
    assert expert_load.by_rank(visits=[3, 1, 2, 6], expert=2) == [4, 8]
    assert expert_load.imbalance(loads=[4, 8]) == pytest.approx(8 / 6)
    assert expert_load.imbalance(loads=[0, 0, 9]) == 3 and expert_load.imbalance(loads=[2, 2]) == 1
    assert expert_load.waiting(layers=[[4, 8], [8, 4]]) == 1 - 12 / 16
    for refused in (
        lambda: expert_load.imbalance(loads=[0, 0]),
        lambda: expert_load.waiting(layers=[]),
    ):
        with pytest.raises(InputError, match="expected at least one"):
            refused()
    with pytest.raises(InputError, match="expert = 3: does not divide experts = 4"):
        expert_load.by_rank(visits=[1, 2, 3, 4], expert=3)
