"""Right programs for the puzzle levels."""

from mathlib.workshop.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join


async def by_hand_inside_a_node(me, gradient, node_size):
    """A leader for each place: written by hand, without the given collectives."""
    first = me.rank - me.rank % node_size
    node = [r for r in range(first, first + node_size) if r != me.rank]
    across = [r for r in range(me.rank % node_size, me.size, node_size) if r != me.rank]
    shards = gradient.shards(node_size)
    for r in node:
        await me.send(r, shards[r % node_size])
    own = shards[me.rank % node_size]
    for r in node:
        own = own + await me.receive(r)
    own = await all_reduce(me, own, sorted([*across, me.rank]))
    for r in node:
        await me.send(r, own)
    parts = {me.rank: own} | {r: await me.receive(r) for r in node}
    return join([parts[r] for r in sorted(parts)])


async def two_halves_across(me, gradient, node_size):
    """An all-reduce is a reduce-scatter and an all-gather, across nodes too."""
    node = [r for r in range(me.size) if r // node_size == me.rank // node_size]
    across = [r for r in range(me.size) if r % node_size == me.rank % node_size]
    shard = await reduce_scatter(me, gradient, node)
    shard = await all_gather(me, await reduce_scatter(me, shard, across), across)
    return await all_gather(me, shard, node)


async def level_by_level(me, gradient, node_size):
    """Any number of levels: the sum of a level's shard is the next level's task."""
    r, g = me.rank, node_size
    levels = [range(r - r % g, r - r % g + g), range(r % g, me.size, g)]

    async def summed(part, level):
        if level == len(levels):
            return part
        shard = await reduce_scatter(me, part, levels[level])
        return await all_gather(me, await summed(shard, level + 1), levels[level])

    return await summed(gradient, 0)


async def straight_to_the_owners_across(me, gradient, node_size):
    """Across nodes a shard is cut again, and each piece goes to its owner and back."""
    node = [r for r in range(me.size) if r // node_size == me.rank // node_size]
    across = [r for r in range(me.size) if r % node_size == me.rank % node_size]
    pieces = (await reduce_scatter(me, gradient, node)).shards(len(across))
    arrived = await all_to_all(me, pieces, across)
    own = sum(arrived[1:], arrived[0])
    shard = join(await all_to_all(me, [own] * len(across), across))
    return await all_gather(me, shard, node)
