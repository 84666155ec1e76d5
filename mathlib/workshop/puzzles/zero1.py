"""ZeRO-1: the optimizer's state is sharded.  N ranks, P parameters."""

from typing import Any

from mathlib.traffic import volumes
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_gather, reduce_scatter
from mathlib.workshop.diagnosis import differs, each_rank
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER, Outcome
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.training import Training

BETA = 3


async def start(me, model, weights, momentum, batches, rate, beta):
    seen = []
    for batch in batches:
        gradient = model.whole_gradient(weights, batch) / me.size
        shard = gradient.shards(me.size)[me.rank]
        momentum = momentum * beta + shard
        own = weights.shards(me.size)[me.rank] - momentum * rate
        weights = await all_gather(me, own)
        seen.append(weights)
    return seen, momentum


async def solution(me, model, weights, momentum, batches, rate, beta):
    seen = []
    for batch in batches:
        gradient = model.whole_gradient(weights, batch) / me.size
        shard = await reduce_scatter(me, gradient)
        momentum = momentum * beta + shard
        own = weights.shards(me.size)[me.rank] - momentum * rate
        weights = await all_gather(me, own)
        seen.append(weights)
    return seen, momentum


def trial(n: int, steps: int) -> Trial:
    """Weights and momentum of one process."""
    train = Training(n, steps, beta=BETA)
    each = volumes.zero(
        parameters=train.numbers, data=n, stage=1, weight_bytes=NUMBER, gradient_bytes=NUMBER
    ).total
    most = () if train.numbers % n else (Budget("bytes sent", steps * each, "2 P (N-1)/N a step"),)
    return Trial(
        f"{n} ranks, {steps} steps",
        budgets.alone(n),
        lambda me: [
            train.model,
            train.weights[:],
            train.momenta[0].shards(n)[me.rank],
            train.batches[me.rank],
            train.rate,
            BETA,
        ],
        lambda out: wrong(out, train),
        most,
    )


def wrong(out: Outcome, train: Training) -> Any:
    """First the weights, then what is kept of the momentum."""
    for r, x in enumerate(out.results):
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            yield f"rank {r} returns {x!r}: expected its weights after each step, and its momentum"
            return
    yield from train.wrong([x[0] for x in out.results])
    wanted = train.momenta[-1].shards(train.ranks)
    known = {"still has the momentum that it began with": train.momenta[0].shards(train.ranks)}
    for said in each_rank(
        [x[1] for x in out.results],
        lambda r, m: differs(m, wanted[r], {k: v[r] for k, v in known.items()}),
    ):
        yield f"momentum: {said}"


PUZZLE = Puzzle(
    name="zero1",
    title="ZeRO-1: a sharded optimizer",
    chapter="zero",
    grade=2,
    task="""\
Every rank has all weights and a batch of its own, but only shard `me.rank` of the momentum. The
optimizer is gradient descent with momentum: momentum = beta * momentum + gradient, weights =
weights - rate * momentum. A rank needs the mean gradient of its own shard only, and updates
only that shard of the weights. Then all ranks bring their shards together, and go on as one
process would. Return the list of all weights after each step and the momentum shard, with as
many bytes as one all-reduce.""",
    hints=(
        "An all-reduce is a reduce-scatter and an all-gather; ZeRO-1 updates between the two.",
        "Reduce-scatter the gradient, update a shard, all-gather the weights.",
        "`reduce_scatter` gives shard `me.rank` of a sum; the mean is that over `me.size`.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("weights", 0, 1, 2) + [of(r)] * 3 + parts("optimizer", r),
        lambda r: parts("weights", 0, 1, 2) + [of(0, 1, 2)] + parts("optimizer", r),
    ),
    trials=lambda: [trial(2, 2), trial(3, 2), trial(5, 1)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
