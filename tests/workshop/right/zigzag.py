"""Right programs for the puzzle zigzag."""

from mathlib.workshop.tensor import join


async def stripes(me, tokens, read, attend):
    """Stripes of pairs: every other token in turn, forwards and backwards."""
    places = []
    for start in range(0, tokens, 2 * me.size):
        places += [start + me.rank, start + 2 * me.size - 1 - me.rank]
    q, k, v = read(places)
    for r in range(me.size):
        if r != me.rank:
            await me.send(r, [k, v, places])
    y = attend(q, k, v, places, places)
    for r in range(me.size):
        if r != me.rank:
            k, v, seen = await me.receive(r)
            y += attend(q, k, v, places, seen)
    return places, y


async def late_half_first(me, tokens, read, attend):
    """Zigzag, the late half first, the other way round."""
    half, N = tokens // (2 * me.size), me.size
    late = 2 * N - 1 - me.rank
    places = list(range(late * half, late * half + half))
    places += range(me.rank * half, me.rank * half + half)
    q, k, v = read(places)
    seen, y = places, attend(q, k, v, places, places)
    for _ in range(N - 1):
        await me.send((me.rank - 1) % N, [k, v, seen])
        k, v, seen = await me.receive((me.rank + 1) % N)
        y = y + attend(q, k, v, places, seen)
    return places, y


async def pairs_in_turn(me, tokens, read, attend):
    """An early token and the late one that balances it, dealt out like cards; a ring."""
    early = list(range(me.rank, tokens // 2, me.size))
    places = early + [tokens - 1 - i for i in early]
    q, k, v = read(places)
    y = attend(q, k, v, places, places)
    block = [k, v, places]
    for _ in range(me.size - 1):
        await me.send((me.rank + 1) % me.size, block)
        block = await me.receive((me.rank - 1) % me.size)
        y += attend(q, block[0], block[1], places, block[2])
    return places, y


async def each_token_alone(me, tokens, read, attend):
    """Zigzag from the last place to the first, and a query at a time."""
    half = tokens // (2 * me.size)
    pieces = [range(i * half, i * half + half) for i in (me.rank, 2 * me.size - 1 - me.rank)]
    places = sorted((i for piece in pieces for i in piece), reverse=True)
    q, k, v = read(places)
    for r in range(me.size):
        if r != me.rank:
            await me.send(r, [k, v, places])
    rows = [attend(q[i], k, v, [place], places) for i, place in enumerate(places)]
    for r in range(me.size):
        if r != me.rank:
            k, v, seen = await me.receive(r)
            for i, place in enumerate(places):
                rows[i] += attend(q[i], k, v, [place], seen)
    return places, join(rows)
