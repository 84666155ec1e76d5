"""Loads of experts, counted by hand."""

from itertools import combinations
from statistics import mean

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


@pytest.mark.parametrize(("experts", "active", "ranks"), [(8, 3, 4), (6, 2, 3), (4, 4, 2)])
def test_the_ranks_of_a_token_s_experts_are_those_of_all_choices(experts, active, ranks):
    own = experts // ranks
    choices = [{i // own for i in one} for one in combinations(range(experts), active)]
    found = expert_load.ranks_visited(experts=experts, active=active, ranks=ranks)
    assert found == pytest.approx(mean(map(len, choices)))


def test_what_finds_no_room():
    assert expert_load.dropped(visits=[5, 1, 3, 3], room=3) == 2
    assert expert_load.dropped(visits=[3, 3], room=3) == 0


def test_a_made_up_router_deals_every_visit_the_more_skewed_the_less_even():
    of = {"tokens": 400, "experts": 8, "active": 2}
    loads = [expert_load.drawn(**of, skew=skew) for skew in (0, 0.5, 1)]
    assert {sum(one) for one in loads} == {800}
    most = [expert_load.imbalance(loads=one) for one in loads]
    assert most == sorted(most) and most[0] < 1.2 < 1.7 < most[2]
    assert loads[2] == expert_load.drawn(**of, skew=1)
    for refusal, more in (
        (expert_load.drawn, {"tokens": 4, "skew": 0}),
        (expert_load.ranks_visited, {"ranks": 1}),
    ):
        with pytest.raises(InputError, match="active = 5: expected at most experts = 4"):
            refusal(experts=4, active=5, **more)
