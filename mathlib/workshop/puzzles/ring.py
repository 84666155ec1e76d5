"""Ring all-reduce.  N ranks, K bytes of a gradient."""

from mathlib.workshop import budgets
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, sketch
from mathlib.workshop.tensor import join
from mathlib.workshop.training import gradient_sum


async def start(me, gradient):
    right, left = (me.rank + 1) % me.size, (me.rank - 1) % me.size
    shards = gradient.shards(me.size)
    await me.send(right, shards[me.rank])
    shards[left] += await me.receive(left)
    return gradient


async def solution(me, gradient):
    right, left, N = (me.rank + 1) % me.size, (me.rank - 1) % me.size, me.size
    shards = gradient.shards(N)
    for step in range(1, N):  # reduce-scatter: a shard starts right of its owner, ends at it
        await me.send(right, shards[(me.rank - step) % N])
        shards[(me.rank - step - 1) % N] += await me.receive(left)
    for step in range(N - 1):  # all-gather: a shard starts at its owner
        await me.send(right, shards[(me.rank - step) % N])
        shards[(me.rank - step - 1) % N] = await me.receive(left)
    return join(shards)


def trial(n: int, numbers: int) -> Trial:
    held_to = most(n, numbers) if numbers % n == 0 else ()
    return gradient_sum(f"{n} ranks, {numbers} numbers", budgets.alone(n), numbers, held_to)


def most(n: int, numbers: int) -> tuple[Budget, ...]:
    """Where all shards are of one size."""
    seconds = "2 (N-1) (latency + K / (N bandwidth))"
    return (
        budgets.sent("2 K (N-1)/N", "all-reduce", numbers=numbers, ranks=n),
        budgets.time(seconds, "all-reduce", numbers=numbers, ranks=n),
    )


PUZZLE = Puzzle(
    name="ring",
    title="Ring all-reduce",
    chapter="collectives",
    grade=1,
    task="""\
Every rank has a gradient, and every rank needs the sum of all of them. A rank sends to
its right neighbor only, and receives from its left. First the shards travel round the
ring and collect their sums, so that each rank ends with one summed shard. Then the
summed shards travel round once more, until every rank has all of them. Return the whole
sum; no rank may send more than 2 K (N-1)/N bytes.""",
    hints=(
        "Cut the gradient into N shards. In a step a rank sends one shard and receives another.",
        "What a rank receives in one step it adds to its own shard and sends on in the next.",
        "In step s of the first round rank r sends shard r - s and adds what comes to shard "
        "r - s - 1, all modulo N, for s = 1 to N - 1.",
    ),
    sketch=sketch(4, lambda r: [of(r)] * 4, lambda r: [of(0, 1, 2, 3)] * 4),
    trials=lambda: [trial(4, 12), trial(3, 7), trial(2, 5), trial(5, 20)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
