"""Versions of the weights, against the rule of each paper and a walk by hand."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import orders
from mathlib.schedule.weights import stable_rate, versions, versions_kept


@pytest.mark.parametrize("p", range(1, 9))
def test_pipedream_stashes_p_minus_s_versions(p) -> None:
    """4 at the first of 4 workers and 1 at the last, once the pipeline has been full."""
    schedule = orders.make("pipedream", stages=p, micro_batches=3 * p)
    for s in range(p):
        assert versions_kept(schedule, stage=s) == p - s
        wanted = [max(i - (p - s - 1), 0) for i in range(3 * p)]
        assert versions(schedule, stage=s) == wanted


@pytest.mark.parametrize("p", range(1, 6))
def test_2bw_keeps_two_and_is_one_step_late(p) -> None:
    schedule = orders.make("2bw", stages=p, micro_batches=4 * p + 4, accumulate=p + 1)
    for s in range(p):
        assert versions(schedule, stage=s) == [max(i // (p + 1) - 1, 0) for i in range(4 * p + 4)]
        assert versions_kept(schedule, stage=s) == 2
    one_step = orders.make("2bw", stages=p, micro_batches=p)
    assert versions_kept(one_step, stage=0) == 1


def test_what_a_micro_batch_meets_is_there_already() -> None:
    """No stage of 2BW ever needs weights that its updates have not made: why accumulate >= p."""
    schedule = orders.make("2bw", stages=4, micro_batches=16)
    for s in range(4):
        finished = 0
        for kind, i, _ in schedule.actions[s]:
            assert kind == "B" or versions(schedule, stage=s)[i] <= finished // 4
            finished += kind == "B"


@pytest.mark.parametrize("order", ["gpipe", "1f1b", "zb-h1", "zb-v", "interleaved", "dualpipe"])
def test_a_flush_keeps_one_version(order) -> None:
    schedule = orders.make(order, stages=4, micro_batches=8)
    assert [versions_kept(schedule, stage=s) for s in range(4)] == [1] * 4
    assert versions(schedule, stage=3) == [0] * 8


def test_a_stage_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="stage = 2: expected 0 to 1"):
        versions(orders.make("gpipe", stages=2, micro_batches=2), stage=2)


@pytest.mark.parametrize("late", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(("share", "ends"), [(0.98, True), (1.02, False)])
def test_late_gradients_converge_up_to_a_rate(late, share, ends) -> None:
    rate, x = share * stable_rate(late=late), [1.0] * (late + 1)
    for _ in range(4000):
        x = [*x[1:], x[-1] - rate * x[0]]
    assert (max(map(abs, x)) < 1) == ends
