"""Right programs for the puzzle zero1."""

from mathlib.workshop.collectives import all_gather, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join


async def update_gathered(me, model, weights, momentum, batches, rate, beta):
    """The mean is taken of the shard, and the update gathered instead of the weights."""
    seen = []
    for batch in batches:
        shard = await reduce_scatter(me, model.whole_gradient(weights, batch)) / me.size
        momentum = momentum * beta + shard
        weights = weights - await all_gather(me, momentum * rate)
        seen.append(weights)
    return seen, momentum


async def by_hand(me, model, weights, momentum, batches, rate, beta):
    """By hand: shards go straight to their owners."""
    seen, others = [], [r for r in range(me.size) if r != me.rank]
    for batch in batches:
        shards = model.whole_gradient(weights, batch).shards(me.size)
        for r in others:
            await me.send(r, shards[r])
        mean = sum([await me.receive(r) for r in others], shards[me.rank]) / me.size
        momentum = beta * momentum + mean
        new = weights.shards(me.size)
        new[me.rank] -= rate * momentum
        for r in others:
            await me.send(r, new[me.rank])
        for r in others:
            new[r] = await me.receive(r)
        weights = join(new)
        seen.append(weights)
    return [seen, momentum]


async def own_shard_stays(me, model, weights, momentum, batches, rate, beta):
    """A rank keeps its shard of the weights beside the whole, and updates it in every step."""
    seen, own = [], weights.shards(me.size)[me.rank]
    for batch in batches:
        momentum *= beta
        momentum += await reduce_scatter(me, model.whole_gradient(weights, batch)) / me.size
        own -= momentum * rate
        weights = await all_gather(me, own)
        seen.append(weights)
    return seen, momentum


async def all_to_all_of_shards(me, model, weights, momentum, batches, rate, beta):
    """Two all-to-alls: terms to the owner of a shard, and the new shard to everybody."""
    seen = []
    for batch in batches:
        terms = await all_to_all(me, model.whole_gradient(weights, batch).shards(me.size))
        momentum = momentum * beta + sum(terms[1:], terms[0]) / me.size
        new = weights.shards(me.size)[me.rank] - momentum * rate
        weights = join(await all_to_all(me, [new] * me.size))
        seen.append(weights)
    return seen, momentum
