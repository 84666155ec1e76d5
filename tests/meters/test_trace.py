"""Events of several ranks on one clock."""

import itertools
import time

import pytest
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import slow_wires
from mathlib.meters.trace import Event, Trace, hidden, merge, without_idle
from mathlib.parallel.collectives import process_group_of


def test_spans_and_ends_by_a_clock_of_their_own():
    ticks = iter(range(10))
    trace = Trace(rank=3, clock=lambda: next(ticks))
    end = trace.begin("all-reduce", "communication", bytes=40)  # 0
    with trace.span("backward"):  # 1 to 2
        pass
    end()  # 3
    assert trace.events == [
        Event("backward", "compute", 3, 1, 2),
        Event("all-reduce", "communication", 3, 0, 3, 40),
    ]
    assert hidden(trace.events) == pytest.approx(1 / 3)


def test_a_trace_that_is_off_records_nothing():
    trace = Trace(on=False, clock=lambda: 1 / 0)
    with trace.span("forward"):
        trace.begin("all-reduce")()
    assert trace.events == []


def test_what_overlaps_is_hidden_once():
    def event(kind: str, start: float, end: float) -> Event:
        return Event(kind, kind, 0, start, end)

    computing = [event("compute", 0, 4), event("compute", 2, 6), event("compute", 8, 9)]
    assert hidden(
        [*computing, event("communication", 3, 7), event("communication", 6, 10)]
    ) == pytest.approx(4 / 7)
    assert hidden(computing) == 0.0
    assert hidden([event("communication", 0, 1)]) == 0.0


def test_a_rank_that_waits_does_not_compute():
    backward, wait = Event("backward", "compute", 0, 0, 10), Event("wait", "idle", 0, 6, 9)
    sending, other = (
        Event("all-reduce", "communication", 0, 5, 9),
        Event("backward", "compute", 1, 0, 10),
    )
    pieces = [Event("backward", "compute", 0, 0, 6), Event("backward", "compute", 0, 9, 10)]
    assert without_idle([backward, sending, wait, other]) == [*pieces, sending, wait, other]
    assert hidden([backward, sending, wait]) == pytest.approx(1 / 4)
    assert without_idle([backward, Event("wait", "idle", 0, 0, 10)]) == [
        Event("wait", "idle", 0, 0, 10)
    ]


def test_merge_starts_at_zero_and_keeps_durations():
    ranks = [[Event("b", "compute", 0, 11.0, 12.0)], [Event("a", "compute", 1, 10.0, 10.5)], []]
    assert merge(ranks) == [Event("a", "compute", 1, 0.0, 0.5), Event("b", "compute", 0, 1.0, 2.0)]
    assert merge([]) == []


def skewed() -> tuple[float, float, float, float]:
    rank = dist.get_rank()
    trace = Trace(rank, clock=lambda: time.perf_counter() + 1000 * rank)
    ahead = trace.follow()
    dist.barrier()
    now, machine = trace.now(), time.perf_counter()
    return ahead, now, machine, trace.follow(process_group_of([[0], [1, 2]]))


def test_clocks_of_different_machines_are_put_on_one():
    ranks = launch.run(skewed, 3)
    for rank, (ahead, now, machine, _) in enumerate(ranks):
        assert ahead == pytest.approx(1000 * rank, abs=0.05)
        assert now == pytest.approx(machine, abs=0.05)
    assert ranks[0][0] == 0
    assert [in_group for *_, in_group in ranks] == pytest.approx([0, 0, 1000], abs=0.05)


def far_away() -> tuple[float, float]:
    """How far ahead a clock seems that is not: over a slow wire, and where the last question is
    late in leaving.
    """
    with slow_wires.wires(latency=0.1):
        slowly = Trace().follow(rounds=2)
    asked = itertools.count()

    def clock() -> float:
        now = time.perf_counter() + 1e7  # 32 bits tell such a time to the second only
        if dist.get_rank() and next(asked) == 2:
            time.sleep(0.2)
        return now

    return slowly, Trace(clock=clock).follow(rounds=2)


def test_a_clock_is_read_in_the_middle_of_the_quickest_question():
    assert launch.run(far_away, 2)[1] == pytest.approx((0, 0), abs=0.03)
