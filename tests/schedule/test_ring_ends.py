"""Ends without events: equal to those of the event model, for the few and for very many."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mathlib.checks import InputError
from mathlib.schedule import events, programs, ring_ends
from mathlib.schedule.cluster import Cluster, Link

COST, BEGIN = some.sampled_from([1, 1, 1, 2, 5]), some.sampled_from([0, 0, 0, 3, 20])


@given(
    some.lists(some.tuples(COST, BEGIN), min_size=2, max_size=6),
    some.sampled_from([0, 0.5, 3]),
    some.sampled_from(["both", "scatter"]),
)
def test_a_ring_ends_when_its_events_do(ranks, latency, passes):
    (costs, begins), n = zip(*ranks, strict=True), len(ranks)
    ports = {r: Link(1 / cost, latency) for r, cost in enumerate(costs)}
    steps = programs.ring(payload=4 * n, ranks=n, passes=passes)
    run = events.run(programs.after([programs.work(begins), steps]), Cluster((1,) * n, ports=ports))
    count = (n - 1) * (2 if passes == "both" else 1)
    given = {"steps": count, "latency": latency}
    assert ring_ends.ring_ends([4 * c for c in costs], begins, **given) == pytest.approx(run.ends)


@given(
    some.sampled_from([(1, 3), (2, 2), (2, 3), (3, 2)]),
    some.lists(BEGIN, min_size=6, max_size=6),
    some.sampled_from([0, 0.7]),
    some.booleans(),
)
def test_levels_end_when_their_events_do(shape, begins, latency, slow):
    (g, nodes), pause = shape, 1.5
    between, n = Link(1, pause), shape[0] * shape[1]
    ports = {0: Link(0.25, pause)} if slow else {}
    cluster = Cluster((g,) * nodes, Link(5, latency), between, ports=ports)
    payload, begins = 4 * 6 * n, begins[:n]
    steps = programs.hierarchical(payload=payload, ranks=n, ranks_per_node=g)
    run = events.run(programs.after([programs.work(begins), steps]), cluster)
    ends = ring_ends.all_reduce_ends(cluster, payload=payload, begins=begins, hierarchical=True)
    assert ends == pytest.approx(run.ends)


def test_shared_ports_are_halved():
    cluster, payload = Cluster((2, 2), Link(8), Link(1)), 4 * 16
    steps = programs.hierarchical(payload=payload, ranks=4, ranks_per_node=2)
    run = events.run(steps, cluster, shared_ports=True)
    given = {"payload": payload, "hierarchical": True}
    ends = ring_ends.all_reduce_ends(cluster, **given, shared_ports=True)
    assert max(ends) == pytest.approx(run.total)
    assert max(ring_ends.all_reduce_ends(cluster, **given)) < run.total


def test_many_ranks_and_one_slow_one():
    n, cost, slow = 20_000, 1.0, 3.0
    cluster = Cluster((1,) * n, between=Link(1 / cost), ports={77: Link(1 / slow)})
    ends = ring_ends.all_reduce_ends(cluster, payload=n)
    assert max(ends) == pytest.approx(2 * (n - 1) * slow), "a chain stays at the slowest"
    levels = Cluster((8,) * (n // 8), Link(9), Link(1))
    ends = ring_ends.all_reduce_ends(levels, payload=n, hierarchical=True)
    inside, across = 2 * 7 * n / 8 / 9, 2 * (n // 8 - 1) * n / 8 / (n // 8)
    assert [max(ends), min(ends)] == pytest.approx([inside + across] * 2)


@pytest.mark.parametrize(
    ("cluster", "how", "named"),
    [
        (Cluster((2, 1)), {"hierarchical": True}, "nodes = "),
        (Cluster((1, 1), ports={0: Link(1, 1)}), {}, "latency = "),
        (Cluster((2,) * 10_000, between=Link(1)), {}, "10000 of 20000 ranks differ"),
    ],
)
def test_what_it_cannot_follow_is_refused(cluster, how, named):
    with pytest.raises(InputError, match=named):
        ring_ends.all_reduce_ends(cluster, payload=8, **how)
