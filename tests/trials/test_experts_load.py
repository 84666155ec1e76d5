"""Loads of a router, what is dropped, and a clock that waits for the fullest rank."""

import pytest

from mathlib.schedule import expert_load
from mathlib.trials import experts_load as loads


def test_a_bias_moves_against_the_load_that_a_bare_router_keeps():
    found = loads.courses(("nothing", "bias"), steps=20)
    bare, biased = (sum(found[name].experts[-5:]) / 5 for name in ("nothing", "bias"))
    assert bare > 1.2 * biased
    assert all(len(one.experts) == len(one.ranks) == 20 for one in found.values())
    pairs = zip(found["bias"].experts, found["bias"].ranks, strict=True)
    assert all(of_ranks <= of_experts for of_experts, of_ranks in pairs)


def test_a_larger_box_drops_less_and_one_for_all_nothing():
    found = loads.dropped((0.5, 1.0, 4.0), ranks=2)
    assert found[0.5] >= 0.5 > found[1.0] > found[4.0] == 0


def test_every_layer_waits_for_its_fullest_rank():
    found = loads.clocked(2)
    assert found.time == sum(map(max, found.loads))
    idle = sum(e.end - e.start for e in loads.events(found.loads) if e.kind == "idle")
    share = idle * 1e6 / 2 / found.time
    assert share == pytest.approx(expert_load.waiting(layers=found.loads)) and share > 0.01
