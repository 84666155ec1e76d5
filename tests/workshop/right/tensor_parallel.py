"""Right programs for the puzzle tensor-parallel."""

from mathlib.workshop.collectives import all_gather, all_reduce, reduce_scatter
from mathlib.workshop.tensor import join


async def both_sums_at_the_end(me, x, up, down, dy):
    """Both sums at the end."""
    inner = x @ up.T
    dinner = 2 * (dy @ down.T * inner)
    y, dx = (inner * inner) @ down, dinner @ up
    return await all_reduce(me, y), await all_reduce(me, dx), dinner.T @ x, (inner * inner).T @ dy


async def one_sum_of_both(me, x, up, down, dy):
    """One all-reduce of both."""
    inner = x @ up.T
    dinner = (dy @ down.T) * inner * 2
    both = await all_reduce(me, join([(inner * inner) @ down, dinner @ up]))
    return [both[: len(x)], both[len(x) :], dinner.T @ x, (inner * inner).T @ dy]


async def row_by_row(me, x, up, down, dy):
    """Each of a rank's rows is an MLP of inner width 1; their y and dx add up."""
    y, dx, dup, ddown = x * 0, x * 0, [], []
    for i in range(len(up)):
        u, d = up[i], down[i]
        inner = x @ u.T
        dinner = (dy @ d.T) * inner * 2
        y, dx = y + (inner * inner) @ d, dx + dinner @ u
        dup.append(dinner.T @ x)
        ddown.append((inner * inner).T @ dy)
    return await all_reduce(me, y), await all_reduce(me, dx), join(dup), join(ddown)


async def sums_in_two_halves(me, x, up, down, dy):
    """Forward and backward as functions; a sum is a reduce-scatter and an all-gather."""

    async def summed(part):
        return await all_gather(me, await reduce_scatter(me, part))

    async def forward():
        inner = x @ up.T
        return inner, await summed((inner * inner) @ down)

    async def backward(inner):
        back = 2 * inner * (dy @ down.T)
        return await summed(back @ up), back.T @ x, (inner * inner).T @ dy

    inner, y = await forward()
    return (y, *await backward(inner))
