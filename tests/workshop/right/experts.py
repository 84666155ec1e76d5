"""Right programs for the puzzle experts."""

from mathlib.workshop.collectives import all_to_all
from mathlib.workshop.tensor import join


async def plain_messages(me, tokens, chosen, expert):
    """By plain messages, and a single call of the expert."""
    ranks = range(me.size)
    at = {r: [i for i, e in enumerate(chosen) if e == r] for r in ranks}
    for r in ranks:
        if r != me.rank:
            await me.send(r, tokens[at[r]])
    came = [tokens[at[r]] if r == me.rank else await me.receive(r) for r in ranks]
    seen, start = expert(join(came)), 0
    back = {}
    for r, part in zip(ranks, came, strict=True):
        back[r] = seen[start : start + len(part)]
        start += len(part)
        if r != me.rank:
            await me.send(r, back[r])
    rows = {}
    for r in ranks:
        part = back[r] if r == me.rank else await me.receive(r)
        rows.update({i: part[j] for j, i in enumerate(at[r])})
    return join([rows[i] for i in sorted(rows)])


async def sorted_by_expert(me, tokens, chosen, expert):
    """Sorted by expert, and sorted back."""
    order = sorted(range(len(chosen)), key=lambda i: chosen[i])
    counts = [chosen.count(r) for r in range(me.size)]
    starts = [sum(counts[:r]) for r in range(me.size + 1)]
    in_order = tokens[order]
    parts = [in_order[starts[r] : starts[r + 1]] for r in range(me.size)]
    arrived = await all_to_all(me, parts)
    results = join(await all_to_all(me, [expert(x) for x in arrived]))
    return results[[order.index(i) for i in range(len(order))]]


async def a_message_for_each_token(me, tokens, chosen, expert):
    """A token says by its tag where it is from; everybody first says how many come."""
    others = [r for r in range(me.size) if r != me.rank]
    for r in others:
        await me.send(r, [f"{chosen.count(r)}"])
    for i, r in enumerate(chosen):
        if r != me.rank:
            await me.send(r, tokens[i], ("there", r))
    for r in others:
        (count,) = await me.receive(r)
        for _ in range(int(count)):
            await me.send(r, expert(await me.receive(r, ("there", me.rank))), "back")
    rows = [
        expert(tokens[i]) if r == me.rank else await me.receive(r, "back")
        for i, r in enumerate(chosen)
    ]
    return join(rows)


async def one_distance_at_a_time(me, tokens, chosen, expert):
    """To the right neighbor and from the left one, then two places on, and so on."""
    rows = {}
    for distance in range(me.size):
        there, here = (me.rank + distance) % me.size, (me.rank - distance) % me.size
        at = [i for i, e in enumerate(chosen) if e == there]
        part = tokens[at]
        if distance:
            await me.send(there, part)
            await me.send(here, expert(await me.receive(here)))
            part = await me.receive(there)
        else:
            part = expert(part)
        for j, i in enumerate(at):
            rows[i] = part[j]
    return join([rows[i] for i in range(len(chosen))])
