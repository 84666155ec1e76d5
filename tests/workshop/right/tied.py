"""Right programs for the puzzle tied."""

from mathlib.workshop.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join


async def ring_by_hand(me, stages, embedding, gradient, rate):
    """The mean first, then a ring over the ends, by hand."""
    ends = [r for r in range(me.size) if r % stages in (0, stages - 1)]
    if me.rank not in ends:
        return None
    n, i = len(ends), ends.index(me.rank)
    shards = (gradient * stages / me.size).shards(n)
    for step in range(2 * n - 2):
        await me.send(ends[(i + 1) % n], shards[(i - step) % n])
        arrived, to = await me.receive(ends[i - 1]), (i - step - 1) % n
        shards[to] = shards[to] + arrived if step < n - 1 else arrived
    return embedding - join(shards) * rate


async def mean_over_all_ends(me, stages, embedding, gradient, rate):
    """A mean over all ends is half of what is asked for."""
    ends = [r for r in range(me.size) if r % stages == 0 or (r + 1) % stages == 0]
    if me.rank in ends:
        shard = await reduce_scatter(me, gradient, ends) * 2 / len(ends)
        return embedding - await all_gather(me, shard, ends) * rate


async def two_levels(me, stages, embedding, gradient, rate):
    """The two ends of a replica exchange halves, replicas sum a half, and the ends join them."""
    stage, first = me.rank % stages, me.rank - me.rank % stages
    if stage not in (0, stages - 1):
        return None
    ends = [first, first + stages - 1]
    half = await reduce_scatter(me, gradient, ends)
    half = await all_reduce(me, half, range(stage, me.size, stages)) * stages / me.size
    return embedding - await all_gather(me, half, ends) * rate


async def straight_to_the_owners(me, stages, embedding, gradient, rate):
    """Each end owns a shard of the embedding, updates it, and hands it to the others."""
    if gradient is None:
        return None
    firsts = range(0, me.size, stages)
    ends = [end for first in firsts for end in (first, first + stages - 1)]
    terms = await all_to_all(me, gradient.shards(len(ends)), ends)
    new = embedding.shards(len(ends))[ends.index(me.rank)]
    for term in terms:
        new -= term * rate / len(firsts)
    return join(await all_to_all(me, [new] * len(ends), ends))
