"""Right programs for the puzzle ring-attention."""


async def other_way_round(me, q, k, v, attend):
    """The other way round the ring."""
    after, before = (me.rank - 1) % me.size, (me.rank + 1) % me.size
    parts = []
    for _ in range(me.size - 1):
        await me.send(after, [k, v])
        parts = [sum(parts, attend(q, k, v))]
        k, v = await me.receive(before)
    return sum(parts, attend(q, k, v))


async def everybody_to_everybody(me, q, k, v, attend):
    """No ring: everybody sends their block to everybody."""
    others = [(me.rank + i) % me.size for i in range(1, me.size)]
    for r in others:
        await me.send(r, [k, v])
    y = attend(q, k, v)
    for r in others[::-1]:
        k, v = await me.receive(r)
        y = y + attend(q, k, v)
    return y


async def a_state_instead_of_blocks(me, q, k, v, attend):
    """Linear attention: q (k^T v), so that the states k^T v of all ranks can be summed first."""
    others = [r for r in range(me.size) if r != me.rank]
    for r in others:
        await me.send(r, k.T @ v)
    states = [await me.receive(r) for r in others]
    return q @ sum(states, k.T @ v)


async def both_ways_round(me, q, k, v, attend):
    """In turn a block comes from the left and one from the right."""
    right, left = (me.rank + 1) % me.size, (me.rank - 1) % me.size
    ways, y = [[k, v], [k, v]], None
    now = ways[0]
    del k, v
    for step in range(me.size - 1):
        to, frm = (left, right) if step % 2 else (right, left)
        await me.send(to, ways[step % 2])
        part = attend(q, *now)
        y = part if y is None else y + part
        now = ways[step % 2] = await me.receive(frm)
    return y + attend(q, *now)
