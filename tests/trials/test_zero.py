"""The plain stages as chapter and trial study them: what ranks keep, send and end with."""

import pytest

from mathlib.model import oracle
from mathlib.trials import zero


def test_states_are_copies_and_activations_are_not():
    assert zero.copies(ranks=4) == (0.75, 0)


def test_every_stage_trains_the_model_of_one_process_and_no_stage_does_without_half_of_it():
    assert max(zero.distances(2, "SGD") + zero.distances(3, "SGD", m=2)) < oracle.EQUAL
    for way in zero.BROKEN:
        assert min(zero.distances(2, without=way)) > 1e-4


@pytest.mark.parametrize("ranks", [1, 2])  # of four, the chapter and its trial
def test_ranks_keep_and_send_what_the_formulas_say(ranks):
    assert zero.kept(ranks) == {stage: zero.keeps(stage, ranks) for stage in (0, *zero.STAGES)}
    for m in (1, 3):
        for counts in zero.counted(ranks, m).values():
            assert len(set(counts)) == 1
