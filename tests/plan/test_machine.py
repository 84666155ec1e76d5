"""Exchanges go at the pace of the link that they cross."""

from dataclasses import replace
from math import log2
from statistics import median

import pytest

from mathlib.checks import InputError
from mathlib.plan import work
from mathlib.plan.calibration import Rates
from mathlib.plan.machine import host_of, machine
from mathlib.specs import find_cluster, find_device
from mathlib.traffic import mesh

PERFECT = Rates(link=1, network=1, hop=0)
ON = machine("llama3-8b", find_cluster("dgx-h100"), PERFECT)


def test_a_ring_that_leaves_its_node_is_as_fast_as_the_cards_it_has() -> None:
    assert ON.ring(1e9, 8, 1) == 1e9 / 450e9
    assert ON.ring(1e9, 16, 8) == 1e9 / 50e9  # one rank a node: one card
    assert ON.ring(1e9, 16, 1) == 1e9 / 400e9  # all eight
    assert ON.all_to_all(15e9, 16, 1) == pytest.approx(8e9 / 50e9)
    assert ON.ring(1e9, 1, 1) == ON.all_to_all(1e9, 1, 1) == 0


def test_neighbours_are_those_of_the_mesh() -> None:
    for size, stride in ((2, 1), (16, 1), (4, 4), (8, 16)):
        assert ON.neighbours(size, stride) == mesh.neighbours(size=size, stride=stride, node=8)


def test_rounds_take_time_of_their_own() -> None:
    slow = machine("llama3-8b", find_cluster("dgx-h100"), Rates(link=1, network=1, hop=1e-3))
    assert slow.ring(0, 16, 1) == pytest.approx(1e-3 * (7 + log2(2)))


def test_a_device_that_is_none_of_ours() -> None:
    own = machine("llama3-8b", find_cluster("dgx-h100"), PERFECT, device=find_device("a100-80gb"))
    assert own.arithmetic < ON.arithmetic and own.tokens == own.model.context


def test_a_token_goes_to_as_many_nodes_as_it_may() -> None:
    """DeepSeek-V3: 64 cards in 8 nodes hold a layer's experts, a token visits 4 nodes at most."""
    named = {"link": 1.0, "network": 1.0, "hop": 0.0}
    free, held = (
        machine("deepseek-v3", find_cluster("dgx-h100"), Rates(**named, visit_nodes=n))
        for n in (0, 4)
    )
    each = [n * (1 - (1 - 1 / n) ** 8) / 8 for n in (8, 4)]
    slow = [one.all_to_all(63e12, 64, 1) for one in (free, held)]
    assert slow == pytest.approx([56e12 * once / 50e9 for once in each])
    assert slow[0] > slow[1] > slow[0] * 4 / 8


CPU_ADAM = {1e9: 0.22, 2e9: 0.51, 4e9: 1.03, 8e9: 2.41, 10e9: 2.57}  # parameters: seconds


def test_a_host_updates_weights_as_quickly_as_was_published() -> None:
    """ZeRO-Offload, arXiv:2101.06840, Table 4, on a DGX-2; the rate is fitted to its median."""
    nodes = find_cluster("dgx-2")
    whole = host_of(nodes).bandwidth * nodes.devices_per_node
    off = [P * work.STATE / whole / took - 1 for P, took in CPU_ADAM.items()]
    assert median(off) == pytest.approx(0, abs=0.01)
    assert max(map(abs, off)) < 0.18


def test_a_device_reaches_the_host_as_was_published() -> None:
    """ZeRO-Infinity, arXiv:2104.07857, Figure 2b: 3.0 GB/s for each of 16, and 1.5 TB for all."""
    host = host_of(find_cluster("dgx-2"))
    assert host.link == pytest.approx(3.0e9) and host.memory == pytest.approx(1.5e12 / 16)


def test_fewer_devices_of_a_node_have_more_of_its_host() -> None:
    host = host_of(find_cluster("dgx-a100"))
    shares = [host.shares(n) for n in (1, 2, 8, 64)]
    assert shares == [8, 4, 1, 1] and host.memory * shares[0] == 2e12


def test_a_host_that_nobody_told_is_refused() -> None:
    with pytest.raises(InputError, match=r"cluster = 'p4d.24xlarge': expected one whose host_mem"):
        host_of(find_cluster("p4d.24xlarge"))
    own = replace(
        find_cluster("p4d.24xlarge"), host_memory=8e11, host_link=1e10, host_bandwidth=8e10
    )
    assert host_of(own).memory == 1e11 and host_of(own).link < 1e10 > host_of(own).bandwidth
