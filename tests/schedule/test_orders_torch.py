"""The witness: torch.distributed.pipelining's own lists, asked of its own classes."""

from types import SimpleNamespace

import pytest

from mathlib.checks import InputError
from mathlib.schedule import check, orders
from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.simulate import simulate

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")


def of_torch(name: str, p: int, m: int, v: int) -> list[list[tuple[str, int, int]]]:
    """The actions that a class of torch computes for every rank, without processes."""
    kind = getattr(schedules, name)
    lists = []
    for rank in range(p):
        size = m // max(1, m // p)
        stand_in = SimpleNamespace(
            pp_group_size=p,
            _n_microbatches=m,
            n_local_stages=v,
            _stages=[None] * v,
            num_stages=p * v,
            _num_stages=p * v,
            microbatches_per_round=size,
            _stage=SimpleNamespace(stage_index=rank),
            rank=rank,
            n_microbatches=m,
        )
        if hasattr(kind, "_calculate_single_rank_operations"):
            found = kind._calculate_single_rank_operations(stand_in, rank)
        else:
            found = kind._get_pipeline_order(stand_in)[rank]
        lists.append([row for action in found if action for row in _rows(action)])
    return lists


def _rows(action):
    """(letter, micro-batch, chunk); a pair that overlaps is two, F first."""
    for one in action.sub_actions or (action,):
        letter = one.computation_type.value
        if letter in "FBIW":
            yield letter, one.microbatch_index, one.stage_index


def ours(name: str, p: int, m: int, **options: int) -> list[list[tuple[str, int, int]]]:
    schedule = orders.make(name, stages=p, micro_batches=m, **options)
    return [[tuple(action) for action in actions] for actions in schedule.actions]


SIZES = [(2, 4), (3, 9), (4, 8), (4, 32), (8, 16)]


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_the_plain_orders_are_torchs(p, m) -> None:
    assert ours("gpipe", p, m) == of_torch("ScheduleGPipe", p, m, 1)
    *found, last = of_torch("Schedule1F1B", p, m, 1)
    assert ours("1f1b", p, m)[:-1] == found
    if last[0] == ("F", 1, p - 1):  # torch 2.13 numbers the last stage's forwards from 1
        last = [(kind, i - (kind == "F"), c) for kind, i, c in last]
    assert ours("1f1b", p, m)[-1] == last


def test_torchs_list_for_the_last_stage_of_1f1b_is_refused_while_it_counts_from_one() -> None:
    """What it draws, not what it runs: _get_pipeline_order is off by one, its step is not."""
    lists = of_torch("Schedule1F1B", 2, 3, 1)
    if lists[1][0] == ("F", 0, 1):
        pytest.skip("mended")
    theirs = Schedule("theirs", 3, [(0, 1)], [[Action(*row) for row in rows] for rows in lists])
    with pytest.raises(InputError, match="stage 1 has F3 of chunk 1: expected .* 0 to 2"):
        check.validate(theirs)


@pytest.mark.parametrize(("p", "m"), SIZES)
@pytest.mark.parametrize("v", [2, 3])
def test_orders_with_chunks_are_torchs(p, m, v) -> None:
    assert ours("interleaved", p, m, chunks=v) == of_torch("ScheduleInterleaved1F1B", p, m, v)
    assert ours("breadth-first", p, m, chunks=v) == of_torch("ScheduleLoopedBFS", p, m, v)


def test_torchs_rounds_that_are_no_multiple_of_the_stages() -> None:
    """P08 says a multiple of the stages: torch takes 10 micro-batches on 4 stages, in 2 rounds."""
    found = of_torch("ScheduleInterleaved1F1B", 4, 10, 2)
    assert ours("interleaved", 4, 10, chunks=2, round_size=5) == found


@pytest.mark.parametrize(("p", "m"), [*SIZES, (4, 3), (4, 4)])
def test_zb_v_is_torchs(p, m) -> None:
    assert ours("zb-v", p, m) == of_torch("ScheduleZBVZeroBubble", p, m, 2)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_zb_h1_is_torchs_zero_bubble_with_one_chunk(p, m) -> None:
    assert ours("zb-h1", p, m) == of_torch("ScheduleInterleavedZeroBubble", p, m, 1)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (3, 6), (4, 8), (4, 20)])
def test_dualpipe_is_torchs_dualpipe_v_cut_in_half(p, m) -> None:
    """DualPipeV folds 2p stages over p ranks: the half that enters at the far end comes back."""
    found = of_torch("ScheduleDualPipeV", p, m, 2)
    unfolded = ours("dualpipe", 2 * p, 2 * m)
    assert [[(kind, i % m, c) for kind, i, c in actions] for actions in unfolded[:p]] == found


@pytest.mark.parametrize("name", [name for name in orders.ORDERS if name != "dualpipe"])
@pytest.mark.parametrize(("p", "m"), SIZES)
def test_torchs_own_checks_pass_our_lists(name, p, m) -> None:
    """Counted by its validator, and run to the end by its dry run, sends and receives put in."""
    schedule = orders.make(name, stages=p, micro_batches=p * (m // p))
    kinds = {kind.value: kind for kind in schedules._ComputationType}
    lists = {
        s: [schedules._Action(c, kinds[kind], i) for kind, i, c in actions]
        for s, actions in enumerate(schedule.actions)
    }
    where = dict(enumerate(schedule.placements[0]))
    sizes = (schedule.stages, schedule.model_chunks, schedule.micro_batches)
    assert schedules._validate_schedule(lists, *sizes) == where
    sent = schedules._add_send_recv(lists, where.__getitem__, schedule.model_chunks)
    done = schedules._simulate_comms_compute(sent, where.__getitem__, schedule.model_chunks)
    sends = [one for row in done.values() for one in row if one and "SEND" in one[1].value]
    assert len(sends) == simulate(schedule).messages.total()
