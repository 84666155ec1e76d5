"""Right programs for the puzzle mics."""

from mathlib.workshop.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join


async def mean_before_the_sums(me, model, shard, batch, rate, node_size):
    """The mean before the sums, groups by division."""
    node = [r for r in range(me.size) if r // node_size == me.rank // node_size]
    replicas = [r for r in range(me.size) if r % node_size == me.rank % node_size]
    gradient = model.whole_gradient(await all_gather(me, shard, node), batch) / me.size
    gradient = await all_reduce(me, await reduce_scatter(me, gradient, node), replicas)
    return shard - gradient * rate


async def update_summed_over_replicas(me, model, shard, batch, rate, node_size):
    """The update is summed over replicas, instead of the gradient."""
    first = me.rank // node_size * node_size
    node = range(first, first + node_size)
    weights = await all_gather(me, shard, node)
    own = await reduce_scatter(me, model.whole_gradient(weights, batch) * rate / me.size, node)
    return shard - await all_reduce(me, own, range(me.rank % node_size, me.size, node_size))


async def two_halves_across(me, model, shard, batch, rate, node_size):
    """Across nodes a shard is cut again: its owner there updates it, as in ZeRO-1."""
    node = [r for r in range(me.size) if r // node_size == me.rank // node_size]
    replicas = [r for r in range(me.size) if r % node_size == me.rank % node_size]
    gradient = model.whole_gradient(await all_gather(me, shard, node), batch)
    own = await reduce_scatter(me, await reduce_scatter(me, gradient, node), replicas)
    piece = shard.shards(len(replicas))[me.rank // node_size] - own / me.size * rate
    return await all_gather(me, piece, replicas)


async def straight_to_the_owners(me, model, shard, batch, rate, node_size):
    """Inside a node by all-to-all, across nodes by a ring of its own."""
    first, nodes = me.rank // node_size * node_size, me.size // node_size
    node = list(range(first, first + node_size))
    weights = join(await all_to_all(me, [shard] * node_size, node))
    terms = await all_to_all(me, model.whole_gradient(weights, batch).shards(node_size), node)
    pieces, r = sum(terms[1:], terms[0]).shards(nodes), me.rank // node_size
    for step in range(2 * nodes - 2):
        await me.send((me.rank + node_size) % me.size, pieces[(r - step) % nodes])
        arrived, to = await me.receive((me.rank - node_size) % me.size), (r - step - 1) % nodes
        pieces[to] = pieces[to] + arrived if step < nodes - 1 else arrived
    return shard - join(pieces) * rate / me.size
