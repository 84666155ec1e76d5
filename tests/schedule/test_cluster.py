"""A cluster's description: who holds a message back, and what is no cluster."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.schedule.cluster import Cluster, Link

FAST, CABLE, POOR = Link(100.0), Link(20.0, 0.5), Link(5.0, 0.25)
MIXED = Cluster((2, 1, 1), FAST, CABLE, ports={2: POOR}, slow={(0, 1): Link(7.0), (2, 0): POOR})


@pytest.mark.parametrize(
    ("pair", "alone", "shared"),
    [
        ((0, 1), Link(7.0), Link(7.0)),
        ((1, 0), FAST, FAST),  # a link is one direction
        ((0, 2), CABLE, Link(math.inf, 0.5)),
        ((3, 0), POOR, Link(math.inf, 0.25)),
        ((2, 0), Link(5.0, 0.5), Link(5.0, 0.5)),  # the port's pause, the slow link's bandwidth
    ],
)
def test_a_message_is_held_by_the_slowest_of_what_it_passes(pair, alone, shared):
    assert MIXED.link(*pair) == alone
    assert MIXED.link(*pair, shared_ports=True) == shared


def test_ranks_are_numbered_node_by_node():
    assert MIXED.ranks == 4 and MIXED.node_of == [0, 0, 1, 2]
    assert list(MIXED.ranks_of()) == [range(2), range(2, 3), range(3, 4)]
    assert Cluster((1, 1), speeds={1: 0.5}).speed(1) == 0.5 and MIXED.speed(1) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"nodes": ()}, "nodes = "),
        ({"nodes": (2, 0)}, "nodes = 0"),
        ({"nodes": 4}, "nodes = 4"),
        ({"inside": 20e6}, "inside = 20000000.0: expected a Link"),
        ({"between": Link(0)}, "between.bandwidth = 0"),
        ({"between": Link(1.0, -1)}, "between.latency = -1"),
        ({"ports": {2: FAST}}, "ports = 2"),
        ({"ports": [FAST]}, "ports = .*expected a dictionary"),
        ({"slow": {(0, 4): FAST}}, "rank = 4"),
        ({"speeds": {0: 0}}, r"speeds\[0\] = 0"),
        ({"speeds": {-1: 1}}, "rank = -1"),
        ({"deaths": {0: -1}}, r"deaths\[0\] = -1"),
    ],
)
def test_bad_input_names_the_argument(wrong, named):
    with pytest.raises(InputError, match=named):
        Cluster(**({"nodes": (2, 2)} | wrong))
