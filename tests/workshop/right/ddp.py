"""Right programs for the puzzle ddp."""

from mathlib.workshop.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join


async def mean_of_the_weights(me, model, weights, batches, rate):
    """With plain gradient descent the mean of the weights is the same."""
    seen = []
    for batch in batches:
        weights = weights - model.whole_gradient(weights, batch) * rate
        weights = await all_reduce(me, weights) / me.size
        seen.append(weights)
    return seen


async def ring_by_hand(me, model, weights, batches, rate):
    """A ring of its own, and the mean before it instead of after."""
    seen, N = [], me.size
    for batch in batches:
        shards = (model.whole_gradient(weights, batch) / N).shards(N)
        for step in range(2 * N - 2):
            await me.send((me.rank + 1) % N, shards[(me.rank - step) % N])
            arrived = await me.receive((me.rank - 1) % N)
            to = (me.rank - step - 1) % N
            shards[to] = shards[to] + arrived if step < N - 1 else arrived
        weights = weights - join(shards) * rate
        seen.append(weights)
    return seen


async def update_between_the_halves(me, model, weights, batches, rate):
    seen = []
    for batch in batches:
        own = await reduce_scatter(me, model.whole_gradient(weights, batch))
        weights = weights - await all_gather(me, own / me.size * rate)
        seen.append(weights)
    return seen


async def all_to_all_of_shards(me, model, weights, batches, rate):
    """Each shard's owner sums it, and gives the mean to everybody."""
    seen = []
    for batch in batches:
        shards = model.whole_gradient(weights, batch).shards(me.size)
        own = await all_to_all(me, shards)
        mean = sum(own[1:], own[0]) / me.size
        weights = weights - join(await all_to_all(me, [mean] * me.size)) * rate
        seen.append(weights)
    return seen


async def mean_of_the_updates(me, model, weights, batches, rate):
    """The update is summed, with the mean in the rate."""
    seen = [weights]
    for batch in batches:
        update = model.whole_gradient(seen[-1], batch) * (rate) / me.size
        seen.append(seen[-1] - await all_reduce(me, update))
    return seen[1:]
