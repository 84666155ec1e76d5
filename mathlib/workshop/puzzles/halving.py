"""All-reduce by halving and doubling (Rabenseifner 2004).  N ranks, a power of two; K bytes."""

from typing import Any

from mathlib.traffic import comm
from mathlib.workshop import budgets
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, sketch
from mathlib.workshop.tensor import join
from mathlib.workshop.training import gradient_sum


async def start(me, gradient):
    partner = me.rank ^ 1
    low, high = gradient.shards(2)
    keep, give = (high, low) if me.rank & 1 else (low, high)
    await me.send(partner, give)
    keep += await me.receive(partner)
    await me.send(partner, keep)
    other = await me.receive(partner)
    return join([other, keep] if me.rank & 1 else [keep, other])


async def solution(me, gradient):
    keep, distance = gradient, 1
    while distance < me.size:  # halving: each exchange leaves half of what there was
        low, high = keep.shards(2)
        keep, give = (high, low) if me.rank & distance else (low, high)
        await me.send(me.rank ^ distance, give)
        keep += await me.receive(me.rank ^ distance)
        distance *= 2
    while distance > 1:  # doubling: the same partners, the last one first
        distance //= 2
        await me.send(me.rank ^ distance, keep)
        other = await me.receive(me.rank ^ distance)
        keep = join([other, keep] if me.rank & distance else [keep, other])
    return keep


def trial(n: int, numbers: int) -> Trial:
    held_to = most(n, numbers) if numbers % n == 0 else ()
    return gradient_sum(f"{n} ranks, {numbers} numbers", budgets.alone(n), numbers, held_to)


def most(n: int, numbers: int) -> tuple[Budget, ...]:
    """As many bytes as a ring, in fewer messages."""
    how: dict[str, Any] = {"numbers": numbers, "ranks": n, "algorithm": "halving-doubling"}
    rounds = comm.traffic("all-reduce", payload=1, ranks=n, algorithm="halving-doubling").rounds
    seconds = "2 log2(N) latency + 2 K (N-1) / (N bandwidth)"
    return (
        Budget("messages", rounds, "2 log2(N)"),
        budgets.sent("2 K (N-1)/N", "all-reduce", **how),
        budgets.time(seconds, "all-reduce", **how),
    )


PUZZLE = Puzzle(
    name="halving",
    title="All-reduce by halving and doubling",
    chapter="collectives",
    grade=2,
    task="""\
A ring needs 2 (N-1) messages one after the other, and for a small gradient that is all
its time. Here a rank exchanges half of its gradient with its neighbor, and keeps the
other half summed. Then it exchanges half of that half with the rank two places on, then
with the one four places on. The way back goes by the same partners, the last one first,
and doubles what a rank has. Return the whole sum, on 2, 4 or 8 ranks, with 2 log2(N)
messages.""",
    hints=(
        "The partner at distance d is `me.rank ^ d`, for d = 1, 2, 4, ...",
        "Of two partners the one with bit d set keeps the upper half, the other the lower.",
        "On the way back: `join([other, keep])` where bit d is set, else `join([keep, other])`.",
    ),
    sketch=sketch(4, lambda r: [of(r)] * 4, lambda r: [of(0, 1, 2, 3)] * 4),
    trials=lambda: [trial(4, 8), trial(8, 16), trial(2, 5), trial(4, 7)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
