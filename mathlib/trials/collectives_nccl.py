"""What NCCL does with an all-reduce: its own model of rings, trees and the switch, beside times
that others published; and formulas that are wrong in the wild.

K bytes of the buffer · N ranks · g ranks inside a node
"""

import statistics
from typing import Any

from mathlib import specs
from mathlib.traffic import comm, nccl

PUBLISHED = nccl.published()
LINK = PUBLISHED["H100, ring, 8 ranks"].busbw  # bytes/s that NVLink gives a ring
CARDS = specs.find_cluster("dgx-h100").node_bandwidth  # bytes/s of a node's cards together
CARD = CARDS / 8
BUCKET, GIB = 25 * 2**20, 2**30
NAMES = {"ring": "rings", "tree": "tree", "NVLS": "switch", "NVLS tree": "switch and tree"}
WAYS = ("ring", "tree", "NVLS tree")  # over several nodes
Points = list[tuple[float, float]]


def _placed(payload: float, nodes: int, cards: float = CARDS) -> dict[str, Any]:
    links = {"link_bandwidth": LINK, "node_bandwidth": cards}
    return {"payload": payload, "nodes": nodes, "devices_per_node": 8, **links}


def seconds(payload: float, nodes: int, cards: float = CARDS) -> dict[str, float]:
    """What NCCL's model charges for rings, a tree, and the switch with a tree."""
    given = _placed(payload, nodes, cards)
    return {NAMES[way]: nccl.time(way, **given).total for way in WAYS}


def prices(payload: float = BUCKET, nodes: int = 8) -> dict[str, tuple[float, float]]:
    """Seconds of latency (start and steps) and of bytes, for the same ways."""
    found = {}
    for way in WAYS:
        parts = nccl.time(way, **_placed(payload, nodes))
        moving = parts.amount("transfer")
        found[NAMES[way]] = parts.total - moving, moving
    return found


def chosen(payload: float, nodes: int) -> str:
    """What NCCL takes by its model; in brackets what it takes where no switch can add."""
    given = _placed(payload, nodes)
    best = NAMES[nccl.fastest(**given)[0].rpartition(" ")[0]].removesuffix(" and tree")
    other = NAMES[min(("ring", "tree"), key=lambda way: nccl.time(way, **given).total)]
    return best if best == other else f"{best} ({other})"


def by_levels(payload: float, nodes: int) -> float:
    """Levels, charged as NCCL charges rings: start, protocol's share, a channel's cap."""
    found = []
    for protocol, waits in (("LL128", 1), ("Simple", nccl.PLATEAU)):
        row = specs.table("nccl")[f"ring {protocol}"]
        most = row["channel"][-1] if "channel" in row else float("inf")
        near, far = (row["share"] * w for w in (LINK, CARD))
        took = comm.hierarchical_time(
            payload=payload,
            levels=[8, nodes],
            bandwidths=[min(near, 8 * most), min(far, most)],
            latencies=[waits * row[where] for where in ("inside", "across")],
        )
        found.append(took.total + waits * row["base"])
    return min(found)


def by_nodes(payload: float = 2e9) -> dict[str, Points]:
    """Milliseconds of each way, and of the hierarchical one, on 2 to 256 nodes."""
    nodes = [2**e for e in range(1, 9)]
    found: dict[str, Points] = {}
    found["hierarchical"] = [(n, 1e3 * by_levels(payload, n)) for n in nodes]
    for n in nodes:
        for way, took in seconds(payload, n).items():
            found.setdefault(way, []).append((n, 1e3 * took))
    return found


def _stepped(way: str, payload: float, nodes: int, dearer: float) -> float:
    """Seconds by the best protocol, with steps so many times as dear."""
    found = []
    for protocol in ("LL", "LL128", "Simple"):
        parts = nccl.time(way, protocol=protocol, **_placed(payload, nodes))
        steps = parts.amount("inside") + parts.amount("across")
        found.append(parts.total + (dearer - 1) * steps)
    return min(found)


def tree_from(payload: float, dearer: float = 1) -> int:
    """Nodes of eight from which on a tree beats rings; the steps of both may be dearer."""
    return next(
        n
        for n in range(2, 300)
        if _stepped("tree", payload, n, dearer) < _stepped("ring", payload, n, dearer)
    )


# Published times


def latency() -> tuple[float, float]:
    """Seconds of each further step of a ring of 2 to 8 A100, and once: the line that fits best."""
    took = {r: PUBLISHED[f"DGX A100, {r} ranks"].took for r in range(2, 9)}
    step, once = statistics.linear_regression([2 * (r - 1) for r in took], list(took.values()))
    return step, once


def ratios() -> dict[str, tuple[str, float, float]]:
    """Of each published run: how it summed, seconds by the model, seconds published."""
    found = {}
    for name, run in PUBLISHED.items():
        given = _placed(run.payload, run.nodes, run.node_bandwidth)
        given["devices_per_node"] = run.devices_per_node
        way = "ring" if "no switch" in name else run.algorithm
        if way == "default":
            way = nccl.fastest(**given)[0].rpartition(" ")[0]
        found[name] = NAMES[way], nccl.time(way, **given).total, run.took
    del found["H100, ring, 8 ranks"]  # LINK is from there
    return found


# The authors of AutoParallel: h100_nvswitch_roce_400g.py, at most 64 KiB, microseconds by nodes
SMALL = {
    "reduce-scatter, published": {2: 218.5, 4: 258.7, 8: 345.0, 16: 523.6, 32: 876.3},
    "all-reduce, published": {2: 180.8, 4: 184.8, 8: 192.4, 16: 190.9, 32: 207.2},
}
LARGE = {4: 360, 128: 260}  # GB/s of a large reduce-scatter by nodes (NVIDIA/nccl issue 1229)


def small() -> dict[str, Points]:
    """The same and half a ring by NCCL's model, on nodes of eight H100."""
    half: Points = []
    for n in SMALL["all-reduce, published"]:
        t = nccl.time("ring", protocol="LL", **_placed(2**16, n))
        steps = t.amount("inside") + t.amount("across")
        half.append((n, 1e6 * (t.amount("start") + steps / 2)))
    found = {name: Points(times.items()) for name, times in SMALL.items()}
    return found | {"half a ring, by the model": half}


def each_node(name: str) -> float:
    """Microseconds that a further node adds, from 2 to 32."""
    points = dict(small()[name])
    return (points[32] - points[2]) / 30


# Wrong in the wild


def torchrec(nodes: int, per_node: int) -> tuple[float, float]:
    """Bytes for each byte of buffer: as TorchRec charges, and as a rank of a ring sends."""
    capped = min(nodes, 2)
    charged = (2 * capped - 1) / capped * (2 if nodes > 2 else 1)
    return charged, comm.sent("all-reduce", payload=1, ranks=nodes * per_node)


def mlsysim(node: int = 4, nodes: int = 2) -> dict[str, float]:
    """Bytes inside a node over those of the levels, in three versions of a textbook's library."""
    whole, part = (comm.sent("all-reduce", payload=k, ranks=node) for k in (1, 1 / node))
    inside = comm.hierarchical(payload=1, levels=[node, nodes])[0].mean
    versions = {"until April 2026": 2 * whole, "until June 2026": whole + part, "now": inside}
    return {when: sent / inside for when, sent in versions.items()}


def in_network(ranks: int) -> tuple[float, float, float]:
    """Bytes/s of a published run with the switch, K/T; the link by (n-1)/(n+1), by (n+1)/n."""
    run = PUBLISHED[f"H100, switch, {ranks} ranks"]
    rate = run.payload / run.took
    right = comm.bus_factor("all-reduce-in-network", ranks)
    return rate, rate * (ranks - 1) / (ranks + 1), rate * right
