"""Events of several ranks on one clock."""

import time

import pytest
import torch.distributed as dist

from mathlib import launch
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


def test_an_event_ends_when_its_block_raises():
    ticks = iter(range(10))
    trace = Trace(clock=lambda: next(ticks))
    with pytest.raises(ZeroDivisionError), trace.span("forward"):
        raise ZeroDivisionError
    assert trace.events == [Event("forward", "compute", 0, 0, 1)]


def test_only_waiting_inside_an_event_is_cut_out_of_it():
    backward = Event("backward", "compute", 0, 10, 20)
    outside = [Event("wait", "idle", 0, start, end) for start, end in ((2, 5), (25, 30))]
    assert without_idle([backward, *outside]) == [backward, *outside]
    across = [Event("wait", "idle", 0, 5, 12), Event("wait", "idle", 0, 18, 25)]
    assert without_idle([backward, *across])[0] == Event("backward", "compute", 0, 12, 18)
    elsewhere = [Event("wait", "idle", 1, 12, 18)]
    assert without_idle([backward, *elsewhere]) == [backward, *elsewhere]


def test_a_stretch_inside_a_longer_one_changes_nothing():
    long, short = Event("a", "communication", 0, 0, 10), Event("b", "communication", 0, 2, 3)
    computing = Event("forward", "compute", 0, 5, 10)
    assert hidden([long, short, computing]) == pytest.approx(1 / 2)


def skewed() -> tuple[float, float, float, float]:
    """How far ahead the clock is found to be, and by how much that may err; then in a group."""
    rank = dist.get_rank()
    read: list[float] = []

    def clock() -> float:
        read.append(time.perf_counter() + 1000 * rank)
        return read[-1]

    def follow(group) -> tuple[float, float]:
        read.clear()
        ahead = trace.follow(group)
        trips = [told - asked for asked, told in zip(read[::2], read[1::2], strict=True)]
        return ahead, min(trips) / 2 if ahead else 0.0

    trace = Trace(rank, clock)
    ahead, error = follow(None)
    dist.barrier()
    before, now, after = time.perf_counter(), trace.now(), time.perf_counter()
    assert before - error <= now <= after + error
    in_group, its_error = follow(process_group_of([[0], [1, 2]]))
    return ahead, error, in_group, its_error


def test_clocks_of_different_machines_are_put_on_one():
    """As well as half of the quickest round trip allows, however slow the machine is."""
    ranks = launch.run(skewed, 3)
    for rank, (ahead, error, in_group, its_error) in enumerate(ranks):
        assert ahead == pytest.approx(1000 * rank, abs=error + 1e-6)
        assert in_group == pytest.approx([0, 0, 1000][rank], abs=its_error + 1e-6)
    assert ranks[0][0] == 0


@pytest.mark.parametrize(
    ("trips", "found"),
    [
        ([(0.1, 0.1)], 5.0),  # the same there and back: rank 0 read its clock in the middle
        ([(0.1, 0.1), (0.3, 0.1)], 5.0),  # the quicker one tells, wherever it stands
        ([(0.3, 0.1), (0.1, 0.1)], 5.0),
        ([(0.3, 0.1)], 4.9),  # wrong by half of the difference, and nobody could know
    ],
)
def test_a_clock_is_read_in_the_middle_of_the_quickest_question(monkeypatch, trips, found):
    """In a time of our own: a message takes what the list says, rank 1's clock is 5 s ahead."""
    now, trip = 1e7, iter(trips)  # 32 bits tell such a time to the second only
    back, at_rank_0 = 0.0, 0.0

    def send(tensor, **to) -> None:
        nonlocal now, back, at_rank_0
        there, back = next(trip)
        now += there
        at_rank_0 = now - 5

    def receive(tensor, **source) -> None:
        nonlocal now
        tensor.fill_(at_rank_0)
        now += back

    for name, does in {"send": send, "recv": receive}.items():
        monkeypatch.setattr(dist, name, does)
    monkeypatch.setattr(dist, "get_rank", lambda group: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    ahead = Trace(clock=lambda: now).follow(rounds=len(trips))
    assert ahead == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_each_rank_of_the_group_asks_rank_0_in_its_turn(monkeypatch, rank):
    """And is answered itself: the answer to a question of another would be an older one."""
    said: list[tuple] = []
    monkeypatch.setattr(dist, "send", lambda tensor, **to: said.append(("send", to)))
    monkeypatch.setattr(dist, "recv", lambda tensor, **source: said.append(("recv", source)))
    monkeypatch.setattr(dist, "get_rank", lambda group: rank)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 3)
    Trace(rank).follow("the group", rounds=2)

    def of(what: str, **other) -> tuple:
        return what, {"group": "the group", **other}

    questions = [
        [of("recv", group_src=other), of("send", group_dst=other)] * 2 for other in range(1, 3)
    ]
    asking = [of("send", group_dst=0), of("recv", group_src=0)] * 2
    assert said == (asking if rank else sum(questions, []))


def test_an_event_has_no_bytes_unless_told():
    trace = Trace(clock=lambda: 1.0)
    trace.begin("forward")()
    with trace.span("backward"):
        pass
    assert [event.bytes for event in trace.events] == [0, 0]
