"""PyTorch's own pipelines beside ours: same gradients, same order of actions, same bubble; and
Megatron's rule for what is in flight.

p stages · m micro_batches · v chunks a stage
"""

import pipeline_witness as witness
import pytest
from patience import PATIENCE

from mathlib import launch
from mathlib.model import oracle
from mathlib.schedule import orders
from mathlib.schedule.actions import Schedule, looped
from mathlib.schedule.simulate import simulate

SIZES = [(2, 4), (4, 8)]
OURS = {  # the order of ours that torch's class should execute
    "ScheduleGPipe": "gpipe",
    "Schedule1F1B": "1f1b",
    "ScheduleLoopedBFS": "breadth-first",
    "ScheduleInterleaved1F1B": "interleaved",
    "ScheduleZBVZeroBubble": "zb-v",
}


@pytest.fixture(scope="module", params=SIZES, ids=["2 ranks", "4 ranks"])
def found(request):
    p, m = request.param
    names = list(witness.THEIRS)
    return p, m, launch.run(witness.both, p, names, m, timeout=PATIENCE)


@pytest.mark.parametrize("name", witness.THEIRS)
def test_torch_and_we_have_the_gradients_of_one_process(found, name):
    _, m, ranks = found
    wanted, seen = witness.gradients_of_one(m), set()
    for rank in ranks:
        theirs, ours, _ = rank[name]
        assert theirs.keys() == ours.keys()
        seen |= theirs.keys()
        for n in theirs:
            assert oracle.distance([theirs[n], ours[n]], wanted[n]) < oracle.EQUAL, n
    assert seen == set(wanted)


@pytest.mark.parametrize("name", OURS)
def test_torch_executes_our_order(found, name):
    p, m, ranks = found
    done = ranks[0][name][2]
    schedule = orders.make(OURS[name], stages=p, micro_batches=m)
    assert [tuple(row) for row in done] == [tuple(row) for row in schedule.actions]


def test_torchs_dualpipe_v_is_dualpipe_cut_in_half(found):
    p, m, ranks = found
    done = ranks[0]["ScheduleDualPipeV"][2]
    unfolded = orders.make("dualpipe", stages=2 * p, micro_batches=2 * m).actions[:p]
    assert done == [[a._replace(micro_batch=a.micro_batch % m) for a in row] for row in unfolded]


def test_torchs_interleaved_zero_bubble_is_shorter_than_interleaved(found):
    """Executed by our runtime, too; the bubble of both lists by the same clock."""
    p, m, ranks = found
    totals = []
    for name in ("ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble"):
        placement = [looped(stages=p, chunks=2)]
        totals.append(simulate(Schedule(name, m, placement, ranks[0][name][2])).total)
    assert totals[1] < totals[0]


def test_torchs_mean_of_micro_batches_is_not_the_mean_over_tokens():
    """With masked targets, the loss that torch's tutorial passes gives other gradients."""
    wanted = witness.gradients_of_one(4)
    for rank in launch.run(witness.each_its_own_mean, 2, 4, timeout=PATIENCE):
        assert any(not oracle.distance([g], wanted[n]) < 1e-6 for n, g in rank.items())


def in_flight_of_megatron(p, m, v, rank):
    """Chunks that a rank has forward before its first backward is through: the forwards ahead, and
    one more.

    Megatron-LM, megatron/core/pipeline_parallel/schedules.py at d98e8a6, get_pp_rank_microbatches:
    p - rank - 1 ahead without interleaving, else 2 (p - rank - 1) + (v - 1) times the group size,
    p if nothing else is said; at most all.
    """
    ahead = p - rank - 1 if v == 1 else 2 * (p - rank - 1) + (v - 1) * p
    return min(ahead + 1, m * v)


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("v", [1, 2, 4])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_in_flight_counts_are_megatrons(p, v, rounds):
    m = rounds * p
    more = {"chunks": v} if v > 1 else {}
    name = "interleaved" if v > 1 else "1f1b"
    line = simulate(orders.make(name, stages=p, micro_batches=m, **more))
    for s in range(p):
        assert line.peak(s) * v == in_flight_of_megatron(p, m, v, s)
