"""Right programs for the puzzle zero2."""

from mathlib.workshop.collectives import all_gather, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join, zeros


async def mean_before(me, backward, weights, batches, rate):
    """The mean goes in before, the update is gathered instead of the weights."""
    mine = {}
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            shard = await reduce_scatter(me, gradient / (me.size * len(batches)))
            mine[layer] = mine[layer] + shard if layer in mine else shard
            del gradient, shard
    for layer in range(len(weights)):
        weights[layer] = weights[layer] - await all_gather(me, mine.pop(layer) * rate)
    return weights


async def straight_to_the_owners(me, backward, weights, batches, rate):
    """Shards go straight to their owners."""
    others = [r for r in range(me.size) if r != me.rank]
    mine = [zeros(len(w.shards(me.size)[me.rank])) for w in weights]
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            for r in others:
                await me.send(r, gradient.shards(me.size)[r])
            mine[layer] += gradient.shards(me.size)[me.rank]
            for r in others:
                mine[layer] += await me.receive(r)
    for layer, shard in enumerate(mine):
        own = weights[layer].shards(me.size)[me.rank] - shard * rate / len(batches) / me.size
        weights[layer] = await all_gather(me, own)
    return weights


async def weights_that_wait(me, backward, weights, batches, rate):
    """A shard of the new weights takes each term at once; the old weights stay until the end."""
    new = [w.shards(me.size)[me.rank] for w in weights]
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            term = await reduce_scatter(me, gradient)
            new[layer] -= term * rate / (me.size * len(batches))
            del gradient, term
    for layer in range(len(weights)):
        weights[layer] = await all_gather(me, new[layer])
    return weights


async def all_to_all_of_shards(me, backward, weights, batches, rate):
    """Each layer's terms go to the owners of its shards, who sum them."""
    own = {}
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            shards = gradient.shards(me.size)
            del gradient
            for term in await all_to_all(me, shards):
                own[layer] = own[layer] + term if layer in own else term
    for layer, mean in own.items():
        new = weights[layer].shards(me.size)[me.rank] - mean * rate / (me.size * len(batches))
        weights[layer] = join(await all_to_all(me, [new] * me.size))
    return weights
