"""Right programs for the puzzle sequence-parallel."""

from mathlib.workshop.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from mathlib.workshop.tensor import join, matrix, zeros


async def backward_first(me, x, scale, up, down, dy):
    """Backward first, and the scale's gradient from the sum of columns."""
    whole, dy = await all_gather(me, x * scale), await all_gather(me, dy)
    inner = whole @ up.T
    dinner = 2 * ((dy @ down.T) * inner)
    dnormed = await reduce_scatter(me, dinner @ up)
    y = await reduce_scatter(me, (inner * inner) @ down)
    dscale = await all_reduce(me, (x * dnormed).sum())
    return [y, dnormed * scale, dscale, dinner.T @ whole, (inner * inner).T @ dy]


async def ones_times_columns(me, x, scale, up, down, dy):
    """The norm's gradient by a matrix product: rows of ones."""
    whole = await all_gather(me, x * scale)
    inner = whole @ up.T
    y = await reduce_scatter(me, (inner * inner) @ down)
    back = await all_gather(me, dy)
    dinner = (back @ down.T) * (inner * 2)
    d = await reduce_scatter(me, dinner @ up)
    ones = matrix([[1] * len(x)])
    dscale = await all_reduce(me, (ones @ (d * x)).sum())
    return y, d * scale, dscale, dinner.T @ whole, (inner * inner).T @ back


async def all_to_all_of_tokens(me, x, scale, up, down, dy):
    """Gathers and reductions by all-to-all: everybody's own tokens to everybody."""

    async def gathered(part):
        return join(await all_to_all(me, [part] * me.size))

    async def scattered(whole):
        terms = await all_to_all(me, whole.shards(me.size))
        return sum(terms[1:], terms[0])

    whole = await gathered(x * scale)
    inner = whole @ up.T
    y = await scattered((inner * inner) @ down)
    dy = await gathered(dy)
    dinner = (dy @ down.T) * inner * 2
    dnormed = await scattered(dinner @ up)
    dscale = await all_reduce(me, (dnormed * x).sum())
    return y, dnormed * scale, dscale, dinner.T @ whole, (inner * inner).T @ dy


async def token_by_token(me, x, scale, up, down, dy):
    """The gradient of the scale is added up token by token, the others as outer products."""
    whole = await all_gather(me, x * scale)
    back, inner = await all_gather(me, dy), whole @ up.T
    dup, ddown, rows = up * 0, down * 0, []
    for i in range(len(whole)):
        hidden = inner[i]
        grown = 2 * hidden * (back[i] @ down.T)
        dup += grown.T @ whole[i]
        ddown += (hidden * hidden).T @ back[i]
        rows.append(grown @ up)
    dnormed = await reduce_scatter(me, join(rows))
    dscale = zeros(len(scale))
    for i in range(len(x)):
        dscale += (dnormed[i] * x[i]).sum()
    y = await reduce_scatter(me, (inner * inner) @ down)
    return y, dnormed * scale, await all_reduce(me, dscale), dup, ddown
