"""Right programs for the puzzle scatter-gather."""

from mathlib.workshop.tensor import join


async def two_rings(me, gradient, weights):
    right, left, N = (me.rank + 1) % me.size, (me.rank - 1) % me.size, me.size
    shards, whole = gradient.shards(N), [weights] * N
    for step in range(1, N):
        await me.send(right, shards[(me.rank - step) % N])
        shards[(me.rank - step - 1) % N] += await me.receive(left)
    for step in range(N - 1):
        await me.send(right, whole[(me.rank - step) % N])
        whole[(me.rank - step - 1) % N] = await me.receive(left)
    return shards[me.rank], join(whole)


async def both_in_one_message(me, gradient, weights):
    """Both at once: a message has a shard of the gradient and one of the weights."""
    shards = gradient.shards(me.size)
    for r in range(me.size):
        if r != me.rank:
            await me.send(r, [shards[r], weights])
    own, everything = shards[me.rank], {me.rank: weights}
    for r in range(me.size):
        if r != me.rank:
            arrived, everything[r] = await me.receive(r)
            own += arrived
    return [own, join([everything[r] for r in range(me.size)])]


async def by_rotation(me, gradient, weights):
    """At distance d everybody sends to the right and receives from the left."""
    r, N = me.rank, me.size
    shards, whole = gradient.shards(N), [weights] * N
    own = shards[r]
    for d in range(1, N):
        to, frm = (r + d) % N, (r - d) % N
        await me.send(to, shards[to])
        own += await me.receive(frm)
        await me.send(to, weights)
        whole[frm] = await me.receive(frm)
    return own, join(whole)


async def two_tags(me, gradient, weights):
    """Weights first, gradients from the last rank to the first, told apart by tags."""
    ranks = [other for other in range(me.size) if other != me.rank]
    cut = gradient.shards(me.size)
    for other in ranks:
        await me.send(other, weights, "weights")
        await me.send(other, cut[other], "gradient")
    arrived = [await me.receive(other, "gradient") for other in reversed(ranks)]
    parts = [await me.receive(other, "weights") for other in ranks]
    parts.insert(me.rank, weights)
    return sum(arrived, cut[me.rank]), join(parts)
