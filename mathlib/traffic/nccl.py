"""What NCCL does with an all-reduce: two latencies, all cards at once, rings, trees, the switch.

K payload: bytes of the buffer · N ranks · g ranks inside a node
W bandwidth: of NVLink, or of all network cards of a node together where that is less
alpha latency of a step, over NVLink or over the network; NCCL's own stand in data/nccl.toml

The model is src/graph/tuning.cc of NVIDIA/nccl at 5067397c, as far as it concerns
an all-reduce by ring, tree, NVLS or NVLS tree (not CollNet) over nodes of H100 or H200 with NVLink,
one buffer at a time. NCCL's search of the machine (src/graph/search.cc) is not repeated: its caller
gives the bandwidths, and its channels are those that it lays over a node of eight, 12 on one node
and 8 on several.
"""

from collections.abc import Callable, Mapping
from math import log2
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.checks import InputError, flag, non_negative, one_of, positive, whole
from mathlib.parts import Parts
from mathlib.records import dataclass, field
from mathlib.traffic import comm

OVERHEAD = {"Intel": 1e-6, "AMD": 2e-6}  # seconds for a message across, by the host's processors
PLATEAU = 1.4  # a ring over several nodes with the protocol Simple: its latency, times this
UNSPLIT = 0.85  # a tree whose two children hang on one rank of a node: its bandwidth, times this


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
    return ALGORITHMS[one_of("algorithm", algorithm, _possible(nodes, g))](nodes * g, g)


def _possible(nodes: int, g: int) -> list[str]:
    """The switch needs two ranks in a node; it adds alone on one node, with trees on several."""
    switched = ["NVLS" if nodes == 1 else "NVLS tree"] if g > 1 else []
    return ["ring", "tree", *switched]


def _charges() -> dict[str, dict[str, dict[str, Any]]]:
    """NCCL's constants: [algorithm][protocol]."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, row in specs.table("nccl").items():
        algorithm, _, protocol = name.rpartition(" ")
        found.setdefault(algorithm, {})[protocol] = row
    return found


@dataclass(frozen=True)
class _Machine:
    """Nodes of g ranks, their links in bytes/s, and the host's processors."""

    nodes: int
    g: int
    link: float
    cards: float  # of a node together
    host: str

    def capped(self, row: Mapping[str, Any], bandwidth: float, channels: int) -> float:
        """No more than the channels carry, and no more than the protocol carries on them all."""
        which, most = min(self.nodes, 3) - 1, "most_amd" if self.host == "AMD" else "most"
        if "channel" in row:
            bandwidth = min(bandwidth, channels * row["channel"][which])
        return min(bandwidth, row[most][which]) if "most" in row else bandwidth

    def reached(self, algorithm: str, protocol: str) -> float:
        """Bytes/s of rings or trees: what Simple reaches, and of that the protocol's share."""
        rows, channels = _charges()[algorithm], 12 if self.nodes == 1 else 8
        cards = 2 * self.cards if algorithm == "tree" and self.nodes == 2 else self.cards
        W = self.link if self.nodes == 1 else min(self.link, cards)
        W = self.capped(rows["Simple"], W * rows["Simple"]["share"], channels)
        if protocol == "Simple":
            return W
        share = (
            "share_in_node" if self.nodes == 1 and "share_in_node" in rows[protocol] else "share"
        )
        return self.capped(rows[protocol], W * rows[protocol][share], channels)

    def switched(self, row: Mapping[str, Any]) -> float:
        """Bytes/s through the switch, which has a head for each rank of a node.

        A head gets W/(g+1) of each link, since its own rank sends to it twice (search.cc). Two of
        them work at once, and so g heads carry 2 * 0.85 W (g-1)/(g+1), counted as a ring's bytes.
        """
        if self.nodes == 1:  # the same, counted as the bytes that a rank sends, K (N+1)/N
            return self.link * row["share"]
        inside = 2 * row["share"] * self.link * (self.g - 1) / (self.g + 1)
        cards = 2 * self.cards if self.nodes == 2 else self.cards
        return self.capped(row, min(inside, cards), self.g)

    def latencies(self, algorithm: str, protocol: str, payload: float) -> tuple[float, ...]:
        """Seconds once, for a step inside, for a step across."""
        row = _charges()[algorithm][protocol]
        once, inside, across = row["base"], row["inside"], row["across"]
        if self.nodes == 1:
            return once, inside, across
        if self.g == 1 and algorithm == "ring":  # nothing hides the network: as in a tree
            across = _charges()["tree"][protocol]["across"]
        if algorithm != "ring":
            return once, inside, across
        inside = max(inside, OVERHEAD[self.host] * (3 if protocol == "Simple" else 1))
        long = payload // (16 * self.nodes * self.g) >= 64  # bytes for each ring and rank
        times = PLATEAU if protocol == "Simple" and long else 1
        return once * times, inside * times, across * times


def _left(row: Mapping[str, Any], payload: float) -> float:
    """Share of a tree's bandwidth that is left for a buffer of this size, from 64 B to 256 MiB."""
    size = (int(payload) >> 6).bit_length() - 1
    return float(row["medium"][size]) if 0 <= size < len(row["medium"]) else 1.0


def time(
    algorithm: str,
    *,
    payload: float,
    nodes: int,
    devices_per_node: int,
    link_bandwidth: float,
    node_bandwidth: float = 0.0,
    protocol: str = "",
    host: str = "Intel",
    split: bool = False,
) -> Parts:
    """Start + steps inside * alpha + steps across * alpha + bytes / W, as NCCL's tuner has it.

    W is `link_bandwidth`, NVLink's as reached, on one node; on several, all cards of a node
    together (`node_bandwidth`), NVLink where that is less; then NCCL's caps. No protocol named: the
    one that takes least. Not `split`: a tree both of whose children hang on one rank of a node.
    (NVIDIA/nccl 5067397c, src/graph/tuning.cc)

    Chapter: collectives (eq-two-latencies)
    """
    counted = steps(algorithm, nodes=nodes, devices_per_node=devices_per_node)
    K, split = non_negative("payload", payload), flag("split", split)
    machine = _machine(nodes, devices_per_node, link_bandwidth, node_bandwidth, host)
    rows = _charges()[algorithm]
    tried = list(rows) if protocol == "" else [one_of("protocol", protocol, rows)]
    timed = []
    for name in tried:
        once, inside, across = machine.latencies(algorithm, name, K)
        if algorithm.startswith("NVLS"):
            W = machine.switched(rows[name])
        else:
            W = machine.reached(algorithm, name)
        if algorithm == "tree":
            W *= _left(rows[name], K) * (1 if split else UNSPLIT)
        parts = {"start": once, "inside": counted.inside * inside}
        parts |= {"across": counted.across * across, "transfer": counted.serial * K / W}
        timed.append(parts)
    least = min(timed, key=lambda parts: sum(parts.values()))
    return Parts(f"{algorithm}, {nodes} x {devices_per_node} ranks", "second", least)


def _machine(nodes: int, g: int, link: float, cards: float, host: str) -> _Machine:
    link, cards = positive("link_bandwidth", link), non_negative("node_bandwidth", cards)
    if nodes > 1 and not cards:
        raise InputError(f"node_bandwidth = {cards}: expected the cards' bytes/s")
    nodes, g = whole("nodes", nodes), whole("devices_per_node", g)
    return _Machine(nodes, g, link, cards, one_of("host", host, OVERHEAD))


def fastest(
    *,
    payload: float,
    nodes: int,
    devices_per_node: int,
    link_bandwidth: float,
    node_bandwidth: float = 0.0,
    host: str = "Intel",
) -> tuple[str, Parts]:
    """Algorithm and protocol that take the least time by this model, which is how NCCL chooses.

    Chapter: collectives (eq-two-latencies)
    """
    given: dict[str, Any] = {
        "payload": payload,
        "nodes": nodes,
        "devices_per_node": devices_per_node,
        "link_bandwidth": link_bandwidth,
        "node_bandwidth": node_bandwidth,
        "host": host,
    }
    possible = _possible(whole("nodes", nodes), whole("devices_per_node", devices_per_node))
    timed = {
        f"{algorithm} {protocol}": time(algorithm, protocol=protocol, **given)
        for algorithm in possible
        for protocol in _charges()[algorithm]
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
    return {name: PublishedRun(name=name, **row) for name, row in specs.table("allreduces").items()}
