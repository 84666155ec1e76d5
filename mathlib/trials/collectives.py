"""All-reduces on ranks of this machine: what each rank sends and to whom, how long it takes over
slowed wires, and who waits for a slow link.

K bytes of the buffer that each rank holds · N ranks
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.meters import clock, wire
from mathlib.parallel import collectives
from mathlib.parallel.plain import ring
from mathlib.traffic import comm, mesh

K = 840_000  # divides by 2, 3, ..., 8
HEADER = wire.ANNOUNCED + wire.READY  # gloo's own bytes for a message: 96 there, 48 back
SLOW: dict[str, Any] = {"latency": 0.05, "bandwidth": 40e6}  # seconds a message, bytes/s
ALGORITHMS: dict[str, Callable] = {
    "ring": collectives.ring_all_reduce,
    "tree": collectives.tree_all_reduce,
    "halving-doubling": collectives.halving_doubling_all_reduce,
}
Sent = list[dict[int, int]]  # of each rank: bytes by receiver


def buffer(size: float = K) -> torch.Tensor:
    """So many bytes."""
    return torch.ones(int(size) // 4)


def bytes_sent(all_reduce: Callable) -> int:
    """What this rank sends."""
    with wire.counted() as counted:
        all_reduce(buffer())
    return counted.sent


def _three_counts() -> tuple[int, ...]:
    x = buffer()
    with wire.counted() as program, wire.tcp() as system:
        ring.all_reduce(x)
    with wire.tcp() as gloo:
        dist.all_reduce(x)
    return program.messages, program.calls["recv_"], program.sent, system.sent, gloo.sent


def counts(ranks: int) -> dict[str, float]:
    """A ring of ranks that all send the same: messages each way, and bytes without headers."""
    ((out, into, program, system, gloo),) = set(launch.run(_three_counts, ranks))
    return {
        "messages out": out,
        "messages in": into,
        "formula": comm.sent("all-reduce", payload=K, ranks=ranks),
        "program": program,
        "system": system - out * HEADER,
        "PyTorch": gloo - 2 * out * HEADER,  # gloo's ring sends each chunk as two messages
    }


def _by_receiver() -> dict[str, dict[int, int]]:
    groups = [collectives.process_group_of(level) for level in mesh.hierarchical_groups(8, [4, 2])]
    ways = {
        "ring": collectives.ring_all_reduce,
        "levels": lambda x: collectives.hierarchical_all_reduce(x, groups),
    }
    found = {}
    for name, all_reduce in ways.items():
        with wire.counted() as counted:
            all_reduce(buffer())
        found[name] = dict(counted.to)
    return found


def who_to_whom() -> dict[str, Sent]:
    """Bytes from rank to rank, eight ranks on two nodes of four."""
    ranks = launch.run(_by_receiver, 8)
    return {way: [rank[way] for rank in ranks] for way in ranks[0]}


def across(sent: Sent, node: int = 4) -> int:
    """Bytes that leave a node."""
    return sum(b for r, to in enumerate(sent) for s, b in to.items() if r // node != s // node)


def levels_sent(levels: Sequence[int]) -> int:
    """What rank 0 sends in an all-reduce by levels."""

    def on_rank() -> int:
        by_level = mesh.hierarchical_groups(dist.get_world_size(), levels)
        groups = [collectives.process_group_of(level) for level in by_level]
        return bytes_sent(lambda x: collectives.hierarchical_all_reduce(x, groups))

    return launch.run(on_rank, torch.Size(levels).numel())[0]


# Seconds on wires that are slowed until only they count


def _timed(sizes: Sequence[int]) -> dict[tuple[str, int], float]:
    took: dict[tuple[str, int], float] = {}
    with slow_wires.wires(**SLOW):
        for k in sizes:
            x = buffer(k)
            for name, all_reduce in list(ALGORITHMS.items()) * 2:  # they take turns
                t = clock.slowest_rank_seconds(all_reduce, x, repeat=1)
                took[name, k] = min(t, took.get((name, k), t))
    return took


def raced(ranks: int, sizes: Sequence[int]) -> dict[tuple[str, int], tuple[float, float]]:
    """Seconds by the model and by the clock, which a busy machine can only make longer."""
    took = launch.run(_timed, ranks, sizes)[0]
    return {
        (name, k): (
            comm.time("all-reduce", payload=k, ranks=ranks, algorithm=name, **SLOW).total,
            seconds,
        )
        for (name, k), seconds in took.items()
    }


# A ring of four with two slow links: one sends at 1 MB/s, one waits 50 ms before each message

LINKS: dict[int, dict[str, Any]] = {
    0: {"latency": 0.05},
    2: {"bandwidth": 1e6, "by": "program"},
}


def _leaving(size: int) -> list[float]:
    x = buffer(size)
    dist.barrier()
    mine = LINKS.get(dist.get_rank(), {})
    with wire.counted() as counted, slow_wires.wires(**mine):
        collectives.ring_all_reduce(x)
    return counted.left


def ahead(left: Sequence[Sequence[float]], slow: int, rank: int) -> int:
    """By how many messages a rank ever is ahead of the slow one."""
    return max(sum(t < at for t in left[rank]) - s for s, at in enumerate(left[slow]))


def leads(size: int, slow: int, ranks: int = 4) -> dict[int, tuple[int, int]]:
    """How far the ranks right of the slow one get ahead of it: by the chain of waits, counted."""
    left = launch.run(_leaving, ranks, size)
    right = {d: (slow + d) % ranks for d in range(1, ranks)}
    return {r: (d, ahead(left, slow, r)) for d, r in right.items()}


def _seconds(cases: Mapping[str, Sequence[int]], all_reduce: Callable) -> dict[str, float]:
    x, took = buffer(), {}
    for name, slowed in cases.items():
        narrow: dict[str, Any] = {"bandwidth": 1e6} if dist.get_rank() in slowed else {}
        with slow_wires.wires(**narrow):
            took[name] = clock.slowest_rank_seconds(all_reduce, x, repeat=1)
    return took


def held() -> dict[str, float]:
    """Seconds of a ring of four with links held to 1 MB/s."""
    cases = {"none": (), "one": (2,), "all four": (0, 1, 2, 3)}
    took = launch.run(_seconds, 4, cases, collectives.ring_all_reduce)[0]
    return took | launch.run(_seconds, 4, {"one, PyTorch's": (2,)}, dist.all_reduce)[0]


def _scattered() -> tuple[int, int]:
    x, piece = buffer(), buffer(K / 8)
    with wire.tcp() as gloo:
        dist.reduce_scatter_tensor(piece, x)
    with wire.tcp() as direct:
        collectives.direct_reduce_scatter(x)
    return gloo.sent - 28 * HEADER, direct.sent - 7 * HEADER


def scattered() -> tuple[int, int]:
    """Bytes of a reduce-scatter over eight ranks: gloo's, and ours by direct messages."""
    return launch.run(_scattered, 8, echo=False)[0]
