"""Collectives from nothing but send and receive, for programs whose subject is another.

A ring: reduce-scatter and all-gather each send all shards but one, all-reduce does both.
"""

from collections.abc import Sequence

from mathlib.checks import InputError
from mathlib.traffic.comm import ring_steps
from mathlib.workshop.ranks import Me
from mathlib.workshop.tensor import Tensor, join

Group = Sequence[int] | None  # ranks; None: all


def place(me: Me, group: Group) -> tuple[list[int], int]:
    """The ranks of the group, and this one's place among them."""
    ranks = list(range(me.size) if group is None else group)
    if me.rank not in ranks:
        raise InputError(f"group {ranks}: rank {me.rank} calls it and is not in it")
    return ranks, ranks.index(me.rank)


async def pass_on(me: Me, give: Tensor, group: Group = None) -> Tensor:
    """One step of a ring: to the right neighbor, from the left one."""
    ranks, r = place(me, group)
    await me.send(ranks[(r + 1) % len(ranks)], give)
    return await me.receive(ranks[r - 1])


async def reduce_scatter(me: Me, tensor: Tensor, group: Group = None) -> Tensor:
    """This rank's shard of the sum."""
    ranks, r = place(me, group)
    shards = tensor.shards(len(ranks))
    for give, take in ring_steps(range(len(ranks)), r)[0]:
        shards[take] += await pass_on(me, shards[give], group)
    return shards[r]


async def all_gather(me: Me, shard: Tensor, group: Group = None) -> Tensor:
    """All shards, joined."""
    ranks, r = place(me, group)
    shards = [shard] * len(ranks)
    for give, take in ring_steps(range(len(ranks)), r)[1]:
        shards[take] = await pass_on(me, shards[give], group)
    return join(shards)


async def all_reduce(me: Me, tensor: Tensor, group: Group = None) -> Tensor:
    """The sum, on every rank."""
    return await all_gather(me, await reduce_scatter(me, tensor, group), group)


async def all_to_all(me: Me, parts: Sequence[Tensor], group: Group = None) -> list[Tensor]:
    """Part i of this rank goes to rank i of the group; what the others had for this one."""
    ranks, r = place(me, group)
    if len(parts) != len(ranks):
        raise InputError(f"all_to_all of {len(parts)} parts: expected one for each rank of {ranks}")
    for other, part in zip(ranks, parts, strict=True):
        if other != me.rank:
            await me.send(other, part)
    return [parts[r] if o == me.rank else await me.receive(o) for o in ranks]
