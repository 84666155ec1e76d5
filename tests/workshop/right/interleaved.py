"""Right programs for the puzzle interleaved."""


async def order_as_a_list(me, stage, m, v):
    """The order as a list of pairs, tags as tuples."""
    p, s = me.size, me.rank
    turns = [(g + i, c) for g in range(0, m, p) for c in range(v) for i in range(p)]
    backs = [(i, v - 1 - c) for i, c in turns]
    warm = min(2 * (p - s - 1) + (v - 1) * p, m * v)
    order = [("F", *turn) for turn in turns[:warm]]
    for f, b in zip(turns[warm:], backs, strict=False):
        order += [("F", *f), ("B", *b)]
    order += [("B", *b) for b in backs[m * v - warm :]]
    for kind, i, c in order:
        part = c * p + s
        if kind == "F":
            x = None if part == 0 else await me.receive((s - 1) % p, ("F", i, part - 1))
            y = stage.forward(i, x, c)
            if part < p * v - 1:
                await me.send((s + 1) % p, y, ("F", i, part))
        else:
            last = part == p * v - 1
            dy = None if last else await me.receive((s + 1) % p, ("B", i, part + 1))
            dx = stage.backward(i, dy, c)
            if part:
                await me.send((s - 1) % p, dx, ("B", i, part))


async def one_function_of_a_direction(me, stage, m, v):
    """The reference with its two halves merged into one function of a direction."""
    p, s = me.size, me.rank

    async def act(k, back):
        i, c = k // (p * v) * p + k % p, k // p % v
        c = v - 1 - c if back else c
        part, step = c * p + s, -1 if back else 1
        begins = part == (p * v - 1 if back else 0)
        x = None if begins else await me.receive((s - step) % p, [back, i, part - step].__repr__())
        y = (stage.backward if back else stage.forward)(i, x, c)
        if part != (0 if back else p * v - 1):
            await me.send((s + step) % p, y, [back, i, part].__repr__())

    ahead = min(2 * (p - 1 - s) + (v - 1) * p, m * v)
    for k in range(m * v + ahead):
        if k < m * v:
            await act(k, False)
        if k >= ahead:
            await act(k - ahead, True)


async def fewer_forwards_first(me, stage, m, v):
    """p - 1 - s fewer: where messages are free, one forward for each stage behind is enough."""
    p, s = me.size, me.rank
    await _one_for_one(me, stage, m, v, min((p - 1 - s) + (v - 1) * p, m * v))


async def _one_for_one(me, stage, m, v, ahead):
    """So many forwards ahead, then one for each backward."""
    p, forwards, backwards = me.size, 0, 0
    while backwards < m * v:
        back = forwards == m * v or forwards == backwards + ahead + 1
        k = backwards if back else forwards
        i, c = k // (p * v) * p + k % p, k // p % v
        if back:
            await _backward(me, stage, i, v - 1 - c, v)
            backwards += 1
        else:
            await _forward(me, stage, i, c, v)
            forwards += 1


async def _forward(me, stage, i, c, v):
    """Forward of a micro-batch through a chunk."""
    p, part = me.size, c * me.size + me.rank
    x = await me.receive((me.rank - 1) % p, ("F", i, part)) if part else None
    y = stage.forward(i, x, c)
    if part + 1 < p * v:
        await me.send((me.rank + 1) % p, y, ("F", i, part + 1))


async def _backward(me, stage, i, c, v):
    """Its backward."""
    p, part = me.size, c * me.size + me.rank
    dy = await me.receive((me.rank + 1) % p, ("B", i, part)) if part + 1 < p * v else None
    dx = stage.backward(i, dy, c)
    if part:
        await me.send((me.rank - 1) % p, dx, ("B", i, part - 1))


async def groups_of_turns(me, stage, m, v):
    """Groups of p micro-batches, as a generator for either direction; forwards run ahead."""
    p, s = me.size, me.rank

    def turns(chunks):
        for group in range(0, m, p):
            for c in chunks:
                for i in range(group, group + p):
                    yield i, c

    forwards, backwards = turns(range(v)), turns(range(v - 1, -1, -1))
    for _ in range(2 * (p - 1 - s) + (v - 1) * p):
        turn = next(forwards, None)
        if turn:
            await _forward(me, stage, *turn, v)
    for back in backwards:
        turn = next(forwards, None)
        if turn:
            await _forward(me, stage, *turn, v)
        await _backward(me, stage, *back, v)
