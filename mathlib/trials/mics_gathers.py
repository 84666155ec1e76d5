"""A hierarchical all-gather, in two orders, by nothing but the plain ring.

row      the whole buffer; this rank has filled in its own shard
inside   the ranks of this node            across   those with this place in every node
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel.plain import mics, ring
from mathlib.traffic import hierarchical

NODE, RANKS, LENGTH = 4, 8, 10_000  # ranks of a node, all ranks, numbers of a shard


def one_ring(row: Tensor, inside: ProcessGroup, across: ProcessGroup) -> None:
    ring.all_gather(row)


def between_first(row: Tensor, inside: ProcessGroup, across: ProcessGroup) -> None:
    place, ranks = ring.place(inside)
    shards = row.view(dist.get_world_size(across), ranks, -1)
    mine = shards[:, place].clone()  # of this place, in every node
    ring.all_gather(mine, across)
    shards[:, place] = mine
    for stretch in shards:  # what one node's ranks have
        ring.all_gather(stretch, inside)


def inside_first(row: Tensor, inside: ProcessGroup, across: ProcessGroup) -> None:
    node, nodes = ring.place(across)
    ring.all_gather(row.view(nodes, -1)[node], inside)
    ring.all_gather(row, across)


def by_leaders(row: Tensor, inside: ProcessGroup, across: ProcessGroup) -> None:
    """Inside first, but one rank of each node speaks for it, and hands round."""
    node, nodes = ring.place(across)
    ring.all_gather(row.view(nodes, -1)[node], inside)
    if dist.get_rank(inside) == 0:
        ring.all_gather(row, across)
    dist.broadcast(row, group=inside, group_src=0)


WAYS: dict[str, Callable] = {
    "one ring": one_ring,
    "between nodes first": between_first,
    "inside nodes first": inside_first,
    "inside first, by leaders": by_leaders,
}


def _counted() -> dict[str, int]:
    rank, ranks, found = dist.get_rank(), dist.get_world_size(), {}
    groups = mics.groups(NODE)
    for name, way in WAYS.items():
        for _ in range(2):  # connections are opened by the first
            row = torch.zeros(ranks * LENGTH)
            row.view(ranks, -1)[rank] = rank
            with wire.sent_to() as sent:
                way(row, *groups)
            assert row.view(ranks, -1).eq(torch.arange(ranks)[:, None]).all(), name
        found[name] = wire.leaving(sent, rank, NODE)
    return found


def counted() -> dict[str, int]:
    """Bytes that the first node sends to the other in a gather, by the system, headers and all."""
    by_rank = launch.run(_counted, RANKS)[:NODE]
    return {name: sum(rank[name] for rank in by_rank) for name in WAYS}


def predicted() -> dict[str, float]:
    """The same by the formula; a leader sends what leaves a ring of nodes."""
    orders = {"one ring": "ring", "inside first, by leaders": "between nodes first"}
    how = {"payload": 4 * RANKS * LENGTH, "ranks": RANKS, "ranks_per_node": NODE}

    def leaves(name: str) -> float:
        parts = hierarchical.all_gather(**how, order=orders.get(name, name))
        return parts.amount("to other nodes")

    return {name: leaves(name) for name in WAYS}
