"""Right programs for the puzzle local-steps."""

from mathlib.workshop.collectives import all_gather, all_reduce, reduce_scatter
from mathlib.workshop.tensor import zeros


async def mean_of_the_weights(me, model, weights, rounds, rate, beta):
    """The mean of the weights, and the move from it."""
    seen, momentum = [], weights * 0
    for batches in rounds:
        before = weights
        for batch in batches:
            weights = weights - rate * model.whole_gradient(weights, batch)
        mean = await all_reduce(me, weights) / me.size
        momentum = beta * momentum + (mean - before)
        weights = before + momentum
        seen.append(weights)
    return seen


async def last_two_weights(me, model, weights, rounds, rate, beta):
    """Momentum kept as the last two weights."""
    seen, last = [], None
    for batches in rounds:
        local = weights
        for batch in batches:
            local -= model.whole_gradient(local, batch) * rate
        move = await all_gather(me, await reduce_scatter(me, (local - weights) / me.size))
        new = weights + move if last is None else weights + move + (weights - last) * beta
        last, weights = weights, new
        seen.append(weights)
    return seen


async def sharded_momentum(me, model, weights, rounds, rate, beta):
    """As ZeRO-1 does: a rank keeps its shard of the momentum and updates that of the weights."""
    seen, momentum = [], weights.shards(me.size)[me.rank] * 0
    for batches in rounds:
        local = weights
        for batch in batches:
            local -= model.whole_gradient(local, batch) * rate
        momentum *= beta
        momentum += await reduce_scatter(me, local - weights) / me.size
        weights = await all_gather(me, weights.shards(me.size)[me.rank] + momentum)
        seen.append(weights)
    return seen


async def gradients_added_up(me, model, weights, rounds, rate, beta):
    """A rank's move is its gradients' sum, times the rate; the momentum has the other sign."""
    seen, momentum = [weights], zeros(len(weights))
    for batches in rounds:
        found = zeros(len(weights))
        for batch in batches:
            found += model.whole_gradient(seen[-1] - found * rate, batch)
        momentum = beta * momentum + await all_reduce(me, found * rate / me.size)
        seen.append(seen[-1] - momentum)
    return seen[1:]
