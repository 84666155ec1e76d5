"""Right programs for the puzzle halving."""

from mathlib.workshop.tensor import join


async def calls_itself(me, gradient):
    """The same by calling itself."""

    async def reduced(x, distance):
        if distance == me.size:
            return x
        partner, upper = me.rank ^ distance, bool(me.rank & distance)
        halves = x.shards(2)
        await me.send(partner, halves[not upper])
        summed = await reduced(halves[upper] + await me.receive(partner), 2 * distance)
        await me.send(partner, summed)
        other = await me.receive(partner)
        return join([other, summed] if upper else [summed, other])

    return await reduced(gradient, 1)


async def farthest_first(me, gradient):
    """The farthest partner first: not Rabenseifner's order, but as many bytes."""
    keep, distances = gradient, []
    distance = me.size // 2
    while distance:
        distances.append(distance)
        low, high = keep.shards(2)
        keep, give = (high, low) if me.rank & distance else (low, high)
        await me.send(me.rank ^ distance, give)
        keep = keep + await me.receive(me.rank ^ distance)
        distance //= 2
    for distance in reversed(distances):
        await me.send(me.rank ^ distance, keep)
        other = await me.receive(me.rank ^ distance)
        keep = join([other, keep]) if me.rank & distance else join([keep, other])
    return keep


async def a_set_of_shards(me, gradient):
    """N shards; a rank keeps those whose number has its own low bits."""
    shards, have, distance = gradient.shards(me.size), set(range(me.size)), 1
    while distance < me.size:
        give = sorted(i for i in have if (i ^ me.rank) & distance)
        have -= set(give)
        await me.send(me.rank ^ distance, [shards[i] for i in give])
        arrived = await me.receive(me.rank ^ distance)
        for i, part in zip(sorted(have), arrived, strict=True):
            shards[i] += part
        distance *= 2
    while distance > 1:
        distance //= 2
        await me.send(me.rank ^ distance, [shards[i] for i in sorted(have)])
        theirs = sorted(i ^ distance for i in have)
        for i, part in zip(theirs, await me.receive(me.rank ^ distance), strict=True):
            shards[i] = part
        have |= set(theirs)
    return join(shards)


async def places_in_one_vector(me, gradient):
    """Where its part of the vector starts and ends; the list of cuts is the way back."""
    low, high, cuts, distance = 0, len(gradient), [], 1
    part = gradient
    while distance < me.size:
        middle = (low + high) // 2
        cuts.append((distance, me.rank & distance))
        mine = (middle, high) if me.rank & distance else (low, middle)
        theirs = (low, middle) if me.rank & distance else (middle, high)
        await me.send(me.rank ^ distance, part[theirs[0] - low : theirs[1] - low])
        part = part[mine[0] - low : mine[1] - low] + await me.receive(me.rank ^ distance)
        (low, high), distance = mine, 2 * distance
    for distance, upper in reversed(cuts):
        await me.send(me.rank ^ distance, part)
        other = await me.receive(me.rank ^ distance)
        part = join([other, part] if upper else [part, other])
    return part
