"""Plain MiCS as chapter and trial study it: weights, bytes by group and node, one norm."""

import math

import pytest

from mathlib.model import oracle
from mathlib.trials import mics


def test_every_degree_trains_the_model_of_one_process_and_replicas_must_meet():
    assert max(mics.distances(2, [(1, "SGD"), (2, "Adam")])) < oracle.EQUAL
    assert min(mics.distances(2, [(1, "SGD")], silent=True)) > 1e-4


def test_ranks_keep_and_send_what_the_formulas_say():
    pairs = mics.kept(2, (1, 2)) | mics.counted([(2, 1, 1), (2, 2, 2), (4, 2, 3)])
    assert len(pairs) == 2 + 9 and all(formula == counted for formula, counted in pairs.values())
    assert pairs["N = 2, S = 2, m = 2: replicas"] == (0, 0)
    assert mics.sends(8, 4, 3)[1] == mics.sends(8, 4, 1)[1], "once a step"


def test_messages_stand_in_their_phase_and_add_up_to_what_a_rank_sends():
    phases, S, R = mics.messages(4, 2), 2, 2
    assert [len(sent) for sent in phases.values()] == [5, 9, 5]
    near = sum(size for phase in ("forward", "backward") for _, size in phases[phase])
    far = sum(size for _, size in phases["step"])
    assert mics.sends(4, 2) == (near * (S - 1) / S, 2 * far * (R - 1) / R)


def test_what_leaves_a_node_is_the_formula_and_headers():
    cases = [(2, False), (4, False), (4, True)]
    for case, counted in zip(cases, mics.leaving(4, cases), strict=True):
        assert 1 <= counted / mics.leaves(4, *case) < 1.03, case
    by_rings = [mics.leaves(8, S, staged=False) for S in (2, 4, 8)]
    assert by_rings[0] < by_rings[2] < by_rings[1], "over two nodes rings send most"


def test_each_shard_counts_once_in_the_norm():
    found, times = mics.clipped(steps=1), {"all ranks": math.sqrt(2), "sharding group": 1}
    for over, ratio in times.items():
        ratios, far = found[over]
        assert ratios == pytest.approx([ratio] * 4, rel=1e-12)
        assert (far < oracle.EQUAL) == (ratio == 1)
    ratios, _ = found["own shard"]
    assert ratios[:2] == ratios[2:] and ratios[0] ** 2 + ratios[1] ** 2 == pytest.approx(1)
