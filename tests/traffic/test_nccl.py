"""NCCL's model of an all-reduce: steps counted on a ring that is walked, times held against
published runs.
"""

import pytest

from mathlib.checks import InputError
from mathlib.traffic import comm, nccl

RUNS = nccl.published()
LINK = RUNS["H100, ring, 8 ranks"].busbw  # NVLink as a ring reaches it
DGX = {"devices_per_node": 8, "link_bandwidth": LINK, "node_bandwidth": 400e9}


def walked(nodes, devices_per_node):
    """Hops inside and across of the piece that crosses most borders, both times round."""
    n = nodes * devices_per_node
    chains = []
    for end in range(n):
        first = [(end + 1 + i) % n for i in range(n - 1)]  # senders: reduce-scatter ends on `end`
        again = [(end + i) % n for i in range(n - 1)]
        across = sum(1 for r in first + again if nodes > 1 and (r + 1) % devices_per_node == 0)
        chains.append((2 * (n - 1) - across, across))
    return max(chains, key=lambda chain: chain[1])


def flown(nodes, devices_per_node, inside, across):
    """Seconds of a ring whose messages weigh nothing and fly: a link may hold several at once."""
    n = nodes * devices_per_node
    border = [nodes > 1 and (r + 1) % devices_per_node == 0 for r in range(n)]
    came = [0.0] * n
    for _ in range(2 * (n - 1)):
        left = [t + (across if border[r] else inside) for r, t in enumerate(came)]
        came = [left[r - 1] for r in range(n)]
    return max(came)


@pytest.mark.parametrize(
    ("nodes", "devices_per_node"), [(1, 8), (2, 4), (3, 2), (5, 8), (4, 1), (16, 8)]
)
def test_a_ring_s_steps_are_those_of_its_longest_piece_but_for_two_borders(nodes, devices_per_node):
    inside, across, serial = nccl.steps("ring", nodes=nodes, devices_per_node=devices_per_node)
    ranks = nodes * devices_per_node
    assert inside + across == comm.traffic("all-reduce", payload=1, ranks=ranks).rounds
    most = walked(nodes, devices_per_node)[1]
    assert most - across == (min(2, devices_per_node - 1) if nodes > 1 else 0)
    assert serial == comm.traffic("all-reduce", payload=1, ranks=ranks).serial


@pytest.mark.parametrize(("nodes", "devices_per_node"), [(2, 4), (5, 8)])
def test_latency_that_flies_is_paid_by_the_piece_and_latency_that_occupies_by_every_step(
    nodes, devices_per_node
):
    inside, across = walked(nodes, devices_per_node)
    assert flown(nodes, devices_per_node, 3.0, 14.0) == pytest.approx(inside * 3.0 + across * 14.0)
    occupied = comm.ring_messages(
        payload=0, bandwidths=[1.0] * nodes * devices_per_node, latency=14.0
    )
    assert max(row[-1][1] for row in occupied) == 2 * (nodes * devices_per_node - 1) * 14.0


def test_one_node_has_no_network_and_a_tree_s_steps_grow_by_one_when_nodes_double():
    assert nccl.steps("ring", nodes=1, devices_per_node=8)[:2] == (14, 0)
    assert nccl.steps("tree", nodes=1, devices_per_node=8)[:2] == (14, 0)
    assert nccl.steps("tree", nodes=5, devices_per_node=8)[:2] == (14, 4)
    assert [nccl.steps("NVLS tree", nodes=n, devices_per_node=8)[1] for n in (2, 4, 128)] == [
        2,
        4,
        14,
    ]


def test_the_slower_of_cards_and_nvlink_decides_and_the_switch_needs_no_nvlink_ring():
    def transfer(algorithm, **changes):
        given = {"payload": 1e9, "nodes": 2, "protocol": "Simple", **DGX, **changes}
        return nccl.time(algorithm, **given).amount("transfer")

    assert transfer("ring", node_bandwidth=200e9) == pytest.approx(2 * 15 / 16 / 200)
    assert transfer("ring") == pytest.approx(2 * 15 / 16 / 370)
    assert transfer("NVLS tree") == pytest.approx(2 * 15 / 16 / 400)
    assert transfer("tree") == pytest.approx(2 / 370 / 0.92)


@pytest.mark.parametrize(
    ("name", "algorithm", "within"),
    [
        *((f"H100, switch, {n} ranks", "NVLS", 0.025) for n in (5, 6, 7, 8)),
        ("5 nodes, ring, 1 GiB", "ring", 0.02),
        ("5 nodes, tree, 1 GiB", "tree", 0.16),
        ("248 nodes, 512 MiB", "NVLS tree", 0.03),
    ],
)
def test_published_runs_are_met(name, algorithm, within):
    run = RUNS[name]
    shape = {"nodes": run.nodes, "devices_per_node": run.devices_per_node, "payload": run.payload}
    links = {"link_bandwidth": LINK, "node_bandwidth": run.node_bandwidth}
    assert nccl.time(algorithm, **shape, **links).total == pytest.approx(run.took, rel=within)


def test_where_steps_decide_the_protocols_lie_round_the_run():
    run = RUNS["5 nodes, ring, 1 MiB"]
    given = {"payload": run.payload, "nodes": 5, **DGX, "node_bandwidth": run.node_bandwidth}
    times = [nccl.time("ring", protocol=p, **given).total for p in ("LL", "LL128", "Simple")]
    assert times == sorted(times) and times[0] < 0.3 * run.took
    assert times[2] == pytest.approx(run.took, rel=0.05)
    assert nccl.time("ring", **given).total == times[0]


def test_no_ring_explains_248_nodes():
    run = RUNS["248 nodes, 512 MiB"]
    for protocol in ("LL", "LL128", "Simple"):
        ring = nccl.time("ring", payload=run.payload, nodes=248, protocol=protocol, **DGX)
        assert ring.total > 3 * run.took


def test_the_withdrawn_factor_misses_the_switch_where_the_right_one_fits():
    rates = {n: RUNS[f"H100, switch, {n} ranks"].algbw for n in (5, 6, 7, 8)}
    right = [rates[n] * comm.bus_factor("all-reduce-in-network", n) for n in rates]
    withdrawn = [rates[n] * (n - 1) / (n + 1) for n in rates]
    assert max(right) / min(right) < 1.01 and max(withdrawn) / min(withdrawn) > 1.2


def test_one_node_changes_from_rings_to_the_switch_where_nccl_s_own_log_does():
    """NVIDIA/nccl-tests issue 309: RING with LL up to 1 MiB, NVLS from 2 MiB."""
    chosen = {
        size: nccl.fastest(payload=2**size, nodes=1, devices_per_node=8, link_bandwidth=LINK)[0]
        for size in range(3, 35)
    }
    assert set(list(chosen.values())[:18]) == {"ring LL"} and chosen[20] == "ring LL"
    assert {chosen[size] for size in range(21, 35)} == {"NVLS Simple"}


def test_64_nodes_go_from_trees_to_the_switch_s_trees():
    """NVIDIA/nccl issue 1752: TREE with LL128 at 16 MiB, NVLS_TREE at 32 MiB."""
    found = [nccl.fastest(payload=2**size, nodes=64, **DGX)[0] for size in (24, 28)]
    assert found == ["tree LL128", "NVLS tree Simple"]


def test_a_run_s_seconds_come_from_whichever_number_is_printed():
    assert RUNS["H100, switch, 8 ranks"].took == 2**32 / 273e9
    assert RUNS["H100, ring, 8 ranks"].took == pytest.approx(1.75 * 2**32 / 370e9)
    assert RUNS["DGX A100, 2 ranks"].took == 10e-6


def test_what_cannot_be_is_refused_by_name():
    given = {"payload": 1, "nodes": 2, "devices_per_node": 8, "link_bandwidth": 1}
    with pytest.raises(InputError, match="node_bandwidth = 0"):
        nccl.time("ring", **given)
    with pytest.raises(InputError, match="algorithm = 'NVLS'"):
        nccl.time("NVLS", **given, node_bandwidth=1)
    with pytest.raises(InputError, match="protocol = 'LL'"):
        nccl.time("NVLS tree", **given, node_bandwidth=1, protocol="LL")
