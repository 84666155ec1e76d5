"""The one that holds the others up is named, and whether it is a processor or a link.

Whatever is judged here is told by a clock of the test's own, or can only be longer than said.
"""

import sys

import pytest
import torch

from mathlib import launch
from mathlib.checks import InputError
from mathlib.launch import lab
from mathlib.meters import stragglers
from mathlib.meters.stragglers import Carried, Straggler, Watch
from mathlib.parallel import collectives as own
from mathlib.schedule.cluster import Cluster, Link

EVEN = {(a, b): Carried(10**6, 0.1) for a in range(4) for b in range(4) if a != b}


@pytest.mark.parametrize(
    ("computed", "links", "nodes", "named"),
    [
        ([1, 1, 1, 1], {}, (), []),
        ([1, 1, 3, 1.2], {}, (), [Straggler(2, None, 3)]),
        ([1, 1, 1, 1], {(1, 2): Carried(10**6, 0.5)}, (), [Straggler(1, 2, 5)]),
        # as long, of fewer bytes; and too few bytes to tell
        ([1, 1, 1, 1], {(3, 0): Carried(10**5, 0.1)}, (), [Straggler(3, 0, 10)]),
        ([1, 1, 1, 1], {(3, 0): Carried(10, 0.1)}, (), []),
        ([2, 1, 1, 1], {(3, 0): Carried(10**6, 0.3)}, (), [(3, 0, 3), (0, None, 2)]),
        # what waits for nothing is no straggler where all computes nothing
        ([0, 0, 0, 0], {(1, 2): Carried(10**6, 0.0)}, (), []),
    ],
)
def test_who_is_slow_and_of_what(computed, links, nodes, named):
    watched = Watch(computed=computed, links=EVEN | links)
    found = watched.stragglers(nodes)
    assert [tuple(one) for one in found] == [pytest.approx(tuple(one)) for one in named]


def test_a_link_is_compared_with_its_own_kind():
    nodes = (0, 0, 1, 1)
    slow = {pair: Carried(10**6, 1.0) for pair in EVEN if nodes[pair[0]] != nodes[pair[1]]}
    watched = Watch(computed=[1] * 4, links=EVEN | slow)
    assert len(watched.stragglers()) in (0, 8) and not watched.stragglers(nodes)
    watched.links[2, 1] = Carried(10**6, 2.0)
    (found,) = watched.stragglers(nodes)
    assert str(found) == "rank 2's link to rank 1 takes 2.0 times the median"
    assert str(Straggler(3, None, 4.0)) == "rank 3's processor takes 4.0 times the median"
    with pytest.raises(InputError, match="times = 0"):
        watched.stragglers(times=0)


SIZE, SLOW, BURST = 6_000_000, 3e6, 10 * 2**16  # a connection's first packets go as they like


def watched():
    """A ring in which this rank computes for 3 seconds over its speed, by a clock of its own."""
    now = [0.0]
    with stragglers.watch(clock=lambda: now[0]) as watch:
        with watch.computing():
            now[0] += lab.here().seconds(3)
        own.ring_all_reduce(torch.ones(SIZE // 4))
        now[0] += 100  # waiting is not computing
    return watch


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_a_run_tells_what_each_computed_and_what_each_link_carried():
    cluster = Cluster((3,), slow={(1, 2): Link(SLOW)}, speeds={2: 0.25})
    ranks = launch.run(watched, cluster=cluster)
    sent = 4 * SIZE / 3
    for watch in ranks:
        assert watch.computed == [3, 3, 12]
        assert watch.links == ranks[0].links and len(watch.links) == 6
        for a in range(3):
            assert sent <= watch.links[a, (a + 1) % 3].bytes < 1.01 * sent
            assert watch.links[(a + 1) % 3, a].bytes < stragglers.ENOUGH
        assert watch.links[1, 2].seconds > (sent - BURST) / SLOW
        assert Straggler(2, None, 4.0) in watch.stragglers()
