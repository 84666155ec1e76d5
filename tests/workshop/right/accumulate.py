"""Right programs for the puzzle accumulate."""

from mathlib.workshop.collectives import all_reduce, all_to_all
from mathlib.workshop.tensor import join, vector, zeros


async def weighed_by_share(me, model, weights, batches, rate):
    """Tokens are counted first, and each gradient weighed by its share."""
    own = sum(len(batch[0]) for batch in batches)
    total = (await all_reduce(me, vector([own] * me.size)))[:1].item()
    gradient = zeros(len(weights))
    for batch in batches:
        gradient += model.whole_gradient(weights, batch) * len(batch[0]) / total
    return weights - await all_reduce(me, gradient) * rate


async def counts_as_plain_numbers(me, model, weights, batches, rate):
    """Counts as plain numbers."""
    counts = [len(target) for _, target in batches]
    for r in range(me.size):
        if r != me.rank:
            await me.send(r, sum(counts))
    total = sum(counts)
    for r in range(me.size):
        if r != me.rank:
            total += await me.receive(r)
    terms = [model.whole_gradient(weights, b) * n for b, n in zip(batches, counts, strict=True)]
    summed = await all_reduce(me, sum(terms[1:], terms[0]))
    return weights - summed * rate / total


async def one_batch_of_all(me, model, weights, batches, rate):
    """A rank's micro-batches joined are one batch, whose mean weighs every token alike."""
    inputs, targets = zip(*batches, strict=True)
    batch = join(inputs), join(targets)
    own = len(batch[0])
    summed = await all_reduce(me, join([vector([own]), model.whole_gradient(weights, batch) * own]))
    return weights - summed[1:] * rate / summed[0].item()


async def token_by_token(me, model, weights, batches, rate):
    """Every token is a batch of its own; the sum goes straight to the owners of its shards."""
    total = vector([0] * (len(weights) + 1))
    for x, target in batches:
        for i in range(len(x)):
            gradient = model.whole_gradient(weights, (x[i], target[i]))
            total += join([gradient, vector([1])])
    arrived = await all_to_all(me, total.shards(me.size))
    own = sum(arrived[1:], arrived[0])
    total = join(await all_to_all(me, [own] * me.size))
    return weights - total[: len(weights)] / total[len(weights)].item() * rate
