"""A 3D run taken apart: one process, bytes by axis, memory of the fullest rank, another layout."""

import pytest

from mathlib.model import oracle
from mathlib.trials import together_run as study


def test_eight_ranks_are_one_process_and_apart_without_a_part():
    far = study.farthest()
    assert max(far["SGD", ""], far["Adam", ""]) < oracle.EQUAL
    assert all(d > 1e-6 for (_, what), d in far.items() if what) and len(far) == 4
    assert max(rank.plain for rank in study.taken_apart()) < oracle.EQUAL


def test_bytes_by_axis_are_predicted_counted_and_the_systems():
    for rank, one in enumerate(study.taken_apart()):
        formula, program, system = one.sent
        assert program == formula and sum(program.values()) == system
        told = {name: both[0] for name, both in study.sent(rank).items()}
        assert sum(told.values()) == system and list(told)[:2] == ["pipeline", "tied table"]


def test_a_rank_holds_what_the_formulas_say_and_the_first_stage_most():
    for one in study.taken_apart():
        held = one.held
        for name in ("weights", "moments"):
            assert held.seen[name] == held.formula[name]
        assert held.seen["activations"] == pytest.approx(held.formula["activations"], rel=0.05)
    assert study.fullest().stage == 0


def test_a_checkpoint_goes_on_in_another_layout():
    assert max(max(one.resumed) for one in study.taken_apart()) < oracle.EQUAL
    assert study.ANOTHER.world == study.THREE.world == 8
