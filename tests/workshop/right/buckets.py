"""Right programs for the puzzle buckets."""

from mathlib.workshop.tensor import join


async def a_list_of_tensors(me, layers, bucket):
    """A bucket is a list of tensors in one message."""
    own, waiting, sent = [None] * layers.count, [], []
    for layer in range(layers.count - 1, -1, -1):
        own[layer] = layers.backward(layer)
        waiting = [*waiting, layer]
        if sum(map(len, (own[i] for i in waiting))) >= bucket:
            await me.send(1 - me.rank, [own[i] for i in waiting])
            sent, waiting = [*sent, waiting], []
    if waiting:
        await me.send(1 - me.rank, [own[i] for i in waiting])
        sent.append(waiting)
    for some in sent:
        for i, theirs in zip(some, await me.receive(1 - me.rank), strict=True):
            own[i] = own[i] + theirs
    return own


async def tags_say_which_layers(me, layers, bucket):
    """What arrives says itself which layer it is of."""
    other, own, waiting, buckets = 1 - me.rank, {}, [], 0
    for layer in reversed(range(layers.count)):
        own[layer] = layers.backward(layer)
        waiting += [layer, own[layer]]
        if sum(len(x) for x in waiting[1::2]) >= bucket or layer == 0:
            await me.send(other, waiting[1::2], tag=tuple(waiting[::2]))
            own["sent"] = [*own.get("sent", []), tuple(waiting[::2])]
            waiting, buckets = [], buckets + 1
    for tag in reversed(own.pop("sent")):
        for layer, theirs in zip(tag, await me.receive(other, tag), strict=True):
            own[layer] += theirs
    return [own[i] for i in range(layers.count)]


async def buckets_planned_first(me, layers, bucket):
    """Which layers go together is known before backward begins."""
    together = -(-bucket // layers.numbers)
    order = list(range(layers.count))[::-1]
    plan = [order[i : i + together] for i in range(0, len(order), together)]
    own = {}
    for group in plan:
        for layer in group:
            own[layer] = layers.backward(layer)
        await me.send(1 - me.rank, join([own[layer] for layer in group]))
    for group in plan:
        arrived = (await me.receive(1 - me.rank)).shards(len(group))
        for layer, theirs in zip(group, arrived, strict=True):
            own[layer] = own[layer] + theirs
    return [own[layer] for layer in reversed(order)]


async def one_vector_that_grows(me, layers, bucket):
    """A bucket is a vector; what arrives is cut into layers at the end."""
    other, filled, mine, sent = 1 - me.rank, None, [], 0
    for layer in reversed(range(layers.count)):
        gradient = layers.backward(layer)
        mine.append(gradient)
        filled = gradient if filled is None else join([filled, gradient])
        if len(filled) >= bucket or layer == 0:
            await me.send(other, filled)
            filled, sent = None, sent + 1
    theirs = join([await me.receive(other) for _ in range(sent)])
    return (join(mine) + theirs).shards(layers.count)[::-1]
