"""Right programs for the puzzle ring."""

from mathlib.workshop.tensor import join


async def other_way_round(me, gradient):
    """The other way round the ring."""
    left, right, N = (me.rank + 1) % me.size, (me.rank - 1) % me.size, me.size
    shards = gradient.shards(N)
    for step in range(N - 1):
        await me.send(right, shards[(me.rank + step) % N])
        shards[(me.rank + step + 1) % N] += await me.receive(left)
    for step in range(N - 1):
        await me.send(right, shards[(me.rank + step - 1) % N])
        shards[(me.rank + step) % N] = await me.receive(left)
    return join(shards)


async def straight_to_the_owners(me, gradient):
    """No ring: each shard goes straight to its owner, and comes back."""
    others = [r for r in range(me.size) if r != me.rank]
    shards = gradient.shards(me.size)
    for r in others:
        await me.send(r, shards[r])
    for r in others:
        shards[me.rank] += await me.receive(r)
    for r in others:
        await me.send(r, shards[me.rank])
    for r in others:
        shards[r] = await me.receive(r)
    return join(shards)


async def from_its_own_shard(me, gradient):
    """The textbook's numbering: a rank starts with its own shard, and owns the next one's sum."""
    r, N = me.rank, me.size
    shards = gradient.shards(N)
    for step in range(N - 1):
        await me.send((r + 1) % N, shards[(r - step) % N])
        shards[(r - step - 1) % N] += await me.receive((r - 1) % N)
    for step in range(N - 1):
        await me.send((r + 1) % N, shards[(r + 1 - step) % N])
        shards[(r - step) % N] = await me.receive((r - 1) % N)
    return join(shards)


async def passed_on(me, gradient):
    """One loop, that only remembers what it passes on."""
    r, N = me.rank, me.size
    shards = gradient.shards(N)
    moving = shards[(r - 1) % N]
    for step in range(2, 2 * N):
        await me.send((r + 1) % N, moving)
        moving = await me.receive((r - 1) % N)
        if step <= N:
            moving += shards[(r - step) % N]
        shards[(r - step) % N] = moving
    return join(shards)
