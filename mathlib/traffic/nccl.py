"""What NCCL does with an all-reduce: two latencies, all cards at once, rings, trees, the switch.

K payload: bytes of the buffer · N ranks · g ranks inside a node
W bandwidth: of NVLink, or of all network cards of a node together where that is less
alpha latency of a step, over NVLink or over the network; NCCL's own stand in data/nccl.toml
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log2
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.checks import InputError, non_negative, one_of, positive, whole
from mathlib.parts import Parts
from mathlib.traffic import comm


class Steps(NamedTuple):
    """What has to wait for what."""

    inside: float  # steps over NVLink, one after the other
    across: float  # steps over the network
    serial: float  # bytes through one rank's share of the links, for each byte of payload


def _ring(N: int, g: int) -> Steps:
    """One ring a card, each of them 2(N-1) steps, of which 2(N/g - 1) leave a node."""
    return Steps(2 * (N - N // g), 2 * (N // g - 1), 2 * (N - 1) / N)


def _tree(N: int, g: int) -> Steps:
    """A chain inside the node, two binary trees across; chunks follow each other up and down."""
    return Steps(2 * (g - 1), 2 * int(log2(N // g)), 2)


def _switch(N: int, g: int) -> Steps:
    """NVLink SHARP, one node: each rank hands in K, and once more its K/N of the sum."""
    return Steps(1, 0, comm.bus_factor("all-reduce-in-network", N))


def _switch_tree(N: int, g: int) -> Steps:
    """The switch inside the node, a tree across, a card for each rank."""
    return Steps(1, 2 * int(log2(N // g)), 2 * (N - 1) / N)


ALGORITHMS: dict[str, Callable[[int, int], Steps]] = {
    "ring": _ring,
    "tree": _tree,
    "NVLS": _switch,
    "NVLS tree": _switch_tree,
}


def steps(algorithm: str, *, nodes: int, devices_per_node: int) -> Steps:
    """Steps inside and across the nodes, and bytes one after the other for each byte of payload.

    Ring: 2 (N - N/g), 2 (N/g - 1), 2 (N-1)/N (NVIDIA/nccl, src/graph/tuning.cc). A piece that goes
    round crosses up to 2 N/g borders; NCCL charges two of them as steps inside.

    Chapter: collectives (eq-two-latencies)
    """
    nodes, g = whole("nodes", nodes), whole("devices_per_node", devices_per_node)
    known = [a for a in ALGORITHMS if nodes == 1 or a != "NVLS"]
    return ALGORITHMS[one_of("algorithm", algorithm, known)](nodes * g, g)


def _charges() -> dict[str, dict[str, dict[str, Any]]]:
    """NCCL's constants: [algorithm][protocol]."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, row in specs.table("nccl").items():
        algorithm, _, protocol = name.rpartition(" ")
        found.setdefault(algorithm, {})[protocol] = row
    return found


def time(
    algorithm: str,
    *,
    payload: float,
    nodes: int,
    devices_per_node: int,
    link_bandwidth: float,
    node_bandwidth: float = 0.0,
    protocol: str = "",
) -> Parts:
    """Start + steps inside * alpha + steps across * alpha + bytes / W, as NCCL's tuner has it.

    W is `link_bandwidth`, NVLink's as reached, on one node; on several, all cards of a node
    together (`node_bandwidth`), NVLink where that is less. NVLS tree: the cards. No protocol named:
    the one that takes least. Left out: caps by generation, corrections for middle sizes
    (NVIDIA/nccl, src/graph/tuning.cc).

    Chapter: collectives (eq-two-latencies)
    """
    counted = steps(algorithm, nodes=nodes, devices_per_node=devices_per_node)
    K = non_negative("payload", payload)
    W = _slowest(algorithm, nodes, link_bandwidth, node_bandwidth)
    rows = _charges()[algorithm]
    tried = rows.values() if protocol == "" else [rows[one_of("protocol", protocol, rows)]]
    timed = [
        {
            "start": row["base"],
            "inside": counted.inside * row["inside"],
            "across": counted.across * row["across"],
            "transfer": counted.serial * K / (W * row["share"]),
        }
        for row in tried
    ]
    least = min(timed, key=lambda parts: sum(parts.values()))
    return Parts(f"{algorithm}, {nodes} x {devices_per_node} ranks", "second", least)


def _slowest(algorithm: str, nodes: int, link_bandwidth: float, node_bandwidth: float) -> float:
    """Bytes/s of the links that hold the others up."""
    link = positive("link_bandwidth", link_bandwidth)
    cards = non_negative("node_bandwidth", node_bandwidth)
    if nodes == 1:
        return link
    if not cards:
        raise InputError(f"node_bandwidth = {node_bandwidth}: expected the cards' bytes/s")
    return cards if algorithm == "NVLS tree" else min(link, cards)


def fastest(
    *,
    payload: float,
    nodes: int,
    devices_per_node: int,
    link_bandwidth: float,
    node_bandwidth: float = 0.0,
) -> tuple[str, Parts]:
    """Algorithm and protocol that take the least time by this model, which is how NCCL chooses.

    Chapter: collectives (eq-two-latencies)
    """
    left_out = "NVLS tree" if whole("nodes", nodes) == 1 else "NVLS"
    given: dict[str, Any] = {
        "payload": payload,
        "nodes": nodes,
        "devices_per_node": devices_per_node,
        "link_bandwidth": link_bandwidth,
        "node_bandwidth": node_bandwidth,
    }
    timed = {
        f"{algorithm} {protocol}": time(algorithm, protocol=protocol, **given)
        for algorithm, rows in _charges().items()
        for protocol in rows
        if algorithm != left_out
    }
    return min(timed.items(), key=lambda item: item[1].total)


@dataclass(frozen=True)
class PublishedRun:
    """An all-reduce that somebody timed with nccl-tests."""

    name: str
    device: str  # a name in devices.toml
    nodes: int
    devices_per_node: int
    payload: float  # bytes
    algorithm: str  # as forced, or "default"
    node_bandwidth: float = 0.0  # bytes/s of a node's cards together; 0: one node
    algbw: float = 0.0  # as printed; 0 where the source prints another of the three
    busbw: float = 0.0
    seconds: float = 0.0
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    @property
    def took(self) -> float:
        """Seconds, from whichever of the three the source prints."""
        if self.busbw:
            return comm.time_at_bus_bandwidth(
                "all-reduce",
                payload=self.payload,
                ranks=self.nodes * self.devices_per_node,
                bus_bandwidth=self.busbw,
            )
        return self.payload / self.algbw if self.algbw else self.seconds


def published() -> dict[str, PublishedRun]:
    """Every run of data/allreduces.toml by its name.

    Chapter: collectives
    """
    rows: dict[str, dict[str, Any]] = specs.table("allreduces")
    return {name: PublishedRun(name=name, **row) for name, row in rows.items()}
