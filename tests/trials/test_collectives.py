"""Runs of the chapter on few ranks: what is counted, and that it could have come out otherwise."""

import pytest

from mathlib.traffic import comm
from mathlib.trials import collectives as runs


@pytest.mark.parametrize("ranks", [2, 3])
def test_three_counts_of_a_ring_agree(ranks):
    found = runs.counts(ranks)
    assert found["messages out"] == found["messages in"] == 2 * (ranks - 1)
    sent = comm.sent("all-reduce", payload=runs.K, ranks=ranks)
    assert [found[c] for c in ("formula", "program", "system", "PyTorch")] == [sent] * 4


def test_levels_send_what_a_flat_ring_sends():
    assert runs.levels_sent([2, 2]) == comm.sent("all-reduce", payload=runs.K, ranks=4)


def test_bytes_across_are_those_that_leave_their_node():
    sent = [{r // 4 * 4 + (r + 1) % 4: 6, (r + 4) % 8: 1} for r in range(8)]
    assert runs.across(sent) == 8 and runs.across(sent, 8) == 0


def test_a_rank_is_ahead_by_what_left_before_the_slow_one():
    left = [[1, 4, 7], [0, 2, 5], [0, 1, 2]]
    assert [runs.ahead(left, 0, rank) for rank in (1, 2)] == [1, 2]
    assert runs.ahead(left, 2, 0) == 0


def test_all_ranks_wait_for_the_link_that_is_busy_longest():
    for size, slow in ((runs.K, 2), (400, 0)):
        assert all(wanted == counted for wanted, counted in runs.leads(size, slow).values())
    other = runs.leads(runs.K, 0).values()  # nobody waits for the rank that only pauses
    assert any(wanted != counted for wanted, counted in other)


def test_seconds_are_those_of_the_model_for_each_algorithm_and_size():
    found = runs.raced(2, (4_000,))
    assert {key: model for key, (model, _) in found.items()} == {
        (name, 4_000): comm.time(
            "all-reduce", payload=4_000, ranks=2, algorithm=name, **runs.SLOW
        ).total
        for name in runs.ALGORITHMS
    }


def test_gloo_makes_a_reduce_scatter_from_an_all_reduce():
    half = comm.sent("reduce-scatter", payload=runs.K, ranks=8)
    assert runs.scattered() == (2 * half, half)
