"""Right programs for the puzzle pipeline."""


async def order_as_a_list(me, stage, m):
    """A list of what is to do, written first."""
    s, p = me.rank, me.size
    ahead = [("F", i) for i in range(min(p - 1 - s, m))]
    steady = [x for i in range(m - len(ahead)) for x in (("F", i + len(ahead)), ("B", i))]
    rest = [("B", i) for i in range(m - len(ahead), m)]
    for kind, i in ahead + steady + rest:
        if kind == "F":
            y = stage.forward(i, await me.receive(s - 1) if s else None)
            if s < p - 1:
                await me.send(s + 1, y)
        else:
            dx = stage.backward(i, await me.receive(s + 1) if s < p - 1 else None)
            if s:
                await me.send(s - 1, dx)


async def greedy(me, stage, m):
    """Greedy: go back whenever there are as many in flight as stages from here on."""
    s, p = me.rank, me.size
    forwards = backwards = 0
    while backwards < m:
        if forwards < m and forwards - backwards < p - s:
            x = None
            if s > 0:
                x = await me.receive(s - 1, ("F", forwards))
            y = stage.forward(forwards, x)
            if s < p - 1:
                await me.send(s + 1, y, ("F", forwards))
            forwards += 1
        else:
            dy = None
            if s < p - 1:
                dy = await me.receive(s + 1, ("B", backwards))
            dx = stage.backward(backwards, dy)
            if s > 0:
                await me.send(s - 1, dx, ("B", backwards))
            backwards += 1


async def one_loop(me, stage, m):
    """Backward i comes so many turns after forward i as there are stages behind."""
    s, last = me.rank, me.size - 1
    behind = last - s
    for turn in range(m + behind):
        if turn < m:
            y = stage.forward(turn, await me.receive(s - 1) if s else None)
            if s < last:
                await me.send(s + 1, y)
        if turn >= behind:
            dx = stage.backward(turn - behind, await me.receive(s + 1) if s < last else None)
            if s:
                await me.send(s - 1, dx)


async def a_queue_of_micro_batches(me, stage, m):
    """Those in flight wait in a queue; a full one makes room before the next forward."""
    s, last, flying = me.rank, me.size - 1, []

    async def back():
        i = flying.pop(0)
        dx = stage.backward(i, None if s == last else await me.receive(s + 1, i))
        if s:
            await me.send(s - 1, dx, i)

    for i in range(m):
        if len(flying) == last - s + 1:
            await back()
        flying.append(i)
        y = stage.forward(i, None if s == 0 else await me.receive(s - 1, i))
        if s < last:
            await me.send(s + 1, y, i)
    while flying:
        await back()
