"""Reduce-scatter and all-gather, the two halves of an all-reduce.  N ranks, K bytes."""

from collections.abc import Sequence
from typing import Any

from mathlib.workshop import budgets
from mathlib.workshop.diagnosis import differs, each_rank, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor, join


async def start(me, gradient, weights):
    shard = gradient.shards(me.size)[me.rank]
    everything = join([weights] * me.size)
    return shard, everything


async def solution(me, gradient, weights):
    others = [r for r in range(me.size) if r != me.rank]
    shards = gradient.shards(me.size)
    for r in others:  # reduce-scatter: each rank is sent its shard
        await me.send(r, shards[r])
    shard = shards[me.rank]
    for r in others:
        shard += await me.receive(r)
    for r in others:  # all-gather: everybody is sent this rank's shard
        await me.send(r, weights)
    everything = [weights if r == me.rank else await me.receive(r) for r in range(me.size)]
    return shard, join(everything)


def trial(n: int, numbers: int) -> Trial:
    """Every rank has a gradient of all weights, and a shard of the weights."""
    gradients = [drawn(f"gradient of rank {r}", numbers).shards(n) for r in range(n)]
    weights = drawn("weights", numbers)
    return Trial(
        f"{n} ranks, {numbers} numbers",
        budgets.alone(n),
        lambda me: [join(gradients[me.rank]), weights.shards(n)[me.rank]],
        lambda out: each_rank(out.results, lambda r, x: wrong(x, gradients, weights, r)),
        (most(n, numbers),) if numbers % n == 0 else (),
    )


def wrong(got: Any, gradients: Sequence[Sequence[Tensor]], weights: Tensor, rank: int) -> str:
    """What is wrong with a rank's shard of the sum, or with its weights."""
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return f"returns {got!r}: expected its shard of the sum, and all weights"
    summed = sum_differs(got[0], [of[rank] for of in gradients], "gradient", rank)
    if summed:
        return summed if summed.startswith("numbers") else f"{summed}, in its shard of the sum"
    own = weights.shards(len(gradients))[rank]
    said = differs(got[1], weights, {"has N copies of its own shard": join([own] * len(gradients))})
    return f"{said}, in the weights" if said else ""


def most(n: int, numbers: int) -> Budget:
    """K (N-1)/N for each."""
    each = budgets.sent("", "reduce-scatter", numbers=numbers, ranks=n).most
    return Budget("bytes sent", 2 * each, "K (N-1)/N for each of the two")


PUZZLE = Puzzle(
    name="scatter-gather",
    title="Reduce-scatter and all-gather",
    chapter="collectives",
    grade=1,
    task="""\
Every rank has a gradient of all weights, and one shard of the weights. Reduce-scatter:
rank r ends with shard r of the sum of all gradients. All-gather: every rank ends with
all weights, in the order of the ranks. Return both: the summed shard and the whole
weights. No rank may send more than K (N-1)/N bytes for either.""",
    hints=(
        "`gradient.shards(me.size)` cuts evenly, as far as it goes; shard r is for rank r.",
        "What rank r needs of this rank is one shard of the gradient, never all of it.",
        "`send` does not wait: send everybody what they need, then receive in a loop, and `join`.",
    ),
    sketch=sketch(
        4,
        lambda r: [of(r)] * 4 + parts("weights", r),
        lambda r: [of(0, 1, 2, 3), *parts("weights", 0, 1, 2, 3)],
    ),
    trials=lambda: [trial(4, 12), trial(3, 7), trial(2, 6)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
