"""The event model: the formulas' own times where links are alike, waiting and death where not."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.schedule import events, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Send, Wait, Work
from mathlib.traffic import comm

W, ALPHA, K = 100.0, 0.5, 4 * 4 * 60
ALIKE = Cluster((1,) * 4, between=Link(W, ALPHA))


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_equal_links_take_the_formulas_time_bytes_and_messages(algorithm):
    run = events.run(getattr(programs, algorithm)(payload=K, ranks=4), ALIKE)
    given = {"payload": K, "ranks": 4, "algorithm": algorithm}
    moved = comm.traffic("all-reduce", **given)
    assert run.total == pytest.approx(
        comm.time("all-reduce", **given, bandwidth=W, latency=ALPHA).total
    )
    assert (sum(run.sent), max(run.sent)) == (moved.total, moved.busiest)
    assert run.messages == ([6] * 4 if algorithm == "ring" else [2, 1, 2, 1])


def test_a_slow_link_holds_the_whole_ring_and_its_messages_are_those_of_the_formula():
    widths = [W, W, W / 4, W]
    cluster = Cluster((1,) * 4, between=Link(W), ports={2: Link(W / 4)})
    run = events.run(programs.ring(payload=K, ranks=4), cluster)
    messages = comm.ring_messages(payload=K, bandwidths=widths)
    assert run.total == pytest.approx(max(end for row in messages for _, end in row))


def test_a_port_is_passed_by_one_message_at_a_time_where_it_is_shared():
    cluster = Cluster((2, 2), between=Link(W, ALPHA))
    both = [[Send(2, 50)], [Send(3, 50)], [Wait(0)], [Wait(1)]]
    assert events.run(both, cluster).ends == [ALPHA, ALPHA, 1, 1]
    assert events.run(both, cluster, shared_ports=True).ends == [ALPHA, ALPHA, 1, 1.5]
    late = [[Work(1), Send(2, 50)], *both[1:]]
    assert events.run(late, cluster, shared_ports=True).ends == [1.5, ALPHA, 2, 1]


def test_what_is_not_computing_is_exposed_or_idle():
    run = events.run([[Work(1), Send(1, W)], [Wait(0), Work(3)]], Cluster((1, 1), between=Link(W)))
    assert (run.ends, run.worked, run.exposed) == ([1, 5], [1, 3], [0, 2])
    assert run.idle == 2 * 5 - 4 and run.total == 5


def test_by_rendezvous_a_message_leaves_when_its_receiver_waits():
    cluster = Cluster((1, 1, 1), between=Link(W))
    plan = [[Work(4), Wait(1), Wait(2)], [Work(3), Send(0, W)], [Send(0, 2 * W)]]
    assert events.run(plan, cluster).ends == [4, 3, 0]
    run = events.run(plan, cluster, rendezvous=True, record=True)
    assert run.ends == [4 + 1 + 2, 3, 0], "one after the other, as it asks for them"
    late = [[Wait(1)], [Work(3), Send(0, W)], []]
    assert events.run(late, cluster, rendezvous=True).ends == events.run(late, cluster).ends
    ring = programs.after([programs.work([1, 5, 1, 1]), programs.ring(payload=K, ranks=4)])
    both = [events.run(ring, ALIKE, rendezvous=how).total for how in (False, True)]
    assert both[0] <= both[1]
    dead = Cluster((1, 1), deaths={0: 1.0})
    assert events.run([[Work(2)], [Send(0, 8)]], dead, rendezvous=True).total == 1


def test_what_is_recorded_adds_up_to_what_is_told():
    cluster = Cluster((2, 2), Link(W), Link(W / 4), speeds={1: 0.5})
    plan = programs.after([programs.work([3.0] * 4), programs.ring(payload=K, ranks=4)])
    run = events.run(plan, cluster, record=True)
    assert not events.run(plan, cluster).spans
    for rank in range(4):
        mine = [span for span in run.spans if span.rank == rank]
        took = {
            kind: sum(span.end - span.start for span in mine if span.kind == kind)
            for kind in ("compute", "idle", "communication")
        }
        assert took["compute"] == run.worked[rank]
        assert took["compute"] + took["idle"] == pytest.approx(run.ends[rank]), "no pauses here"
        assert {s.other for s in mine if s.kind == "communication"} == {(rank + 1) % 4}
        assert {s.other for s in mine if s.kind == "idle"} == {(rank - 1) % 4}
    first = next(span for span in run.spans if span.kind == "idle")
    assert first.what == f"waits for rank {first.other}" and first.start == 3


def test_messages_of_other_tags_do_not_answer():
    ends = [[Send(1, 0, "a"), Work(5), Send(1, 0, "b")], [Wait(0, "b"), Wait(0, "a")]]
    assert events.run(ends, Cluster((2,))).ends == [5, 5]


def test_a_death_leaves_the_others_waiting_for_it_or_for_each_other():
    cluster = Cluster((1,) * 4, between=Link(W, ALPHA), deaths={1: 2 * ALPHA})
    run = events.run(programs.ring(payload=K, ranks=4), cluster)
    assert run.total == math.inf and run.ends[1] == 2 * ALPHA
    assert run.waits_for[2] == 1 and set(run.waits_for) == {0, 2, 3}
    working = Cluster((1,), deaths={0: 2.0})
    assert events.run([[Work(1), Work(5), Work(1)]], working).ends == [2.0]


def test_bad_input_names_the_argument():
    with pytest.raises(InputError, match="programs of 1 ranks: expected 4"):
        events.run([[Work(1)]], ALIKE)
