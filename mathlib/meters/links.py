"""Bytes that a rank sent to each other rank, by the system's count: what crosses from node to node.

A node is a stretch of k neighbours: ranks 0 to k-1, k to 2k-1 and so on, whatever machine they are
really on.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping

import torch.distributed as dist

from mathlib.checks import whole
from mathlib.meters import wire


def peers(group: dist.ProcessGroup | None = None) -> dict[int, int]:
    """Which rank of the group is at the other end of each of this rank's connections."""
    ends = [(inode, sock.getsockname(), sock.getpeername()) for inode, sock in wire.connections()]
    told: list[list[object]] = [[] for _ in range(dist.get_world_size(group))]
    # both ends: two ranks may use one port, each to a different other
    dist.all_gather_object(told, [(own, other) for _, own, other in ends], group)
    rank_at = {pair: rank for rank, theirs in enumerate(told) for pair in theirs}
    return {inode: rank_at[other, own] for inode, own, other in ends if (other, own) in rank_at}


@contextlib.contextmanager
def sent_to(group: dist.ProcessGroup | None = None) -> Iterator[Counter[int]]:
    """Bytes this rank sent during the block, by the rank they went to: begin it on all ranks, read
    it after the block.
    """
    sent: Counter[int] = Counter()
    with wire.by_connection(group) as found:
        yield sent
    other = peers(group)
    for connection, size in found.items():
        if connection in other:
            sent[other[connection]] += size


def leaving(sent: Mapping[int, int], rank: int, ranks_per_node: int) -> int:
    """Bytes of these that this rank sent to another node."""
    node = whole("ranks_per_node", ranks_per_node)
    return sum(size for to, size in sent.items() if to // node != rank // node)
