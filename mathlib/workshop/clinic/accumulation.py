"""Gradients of several micro-batches before a step.  N ranks, m micro-batches."""

from collections.abc import Callable, Sequence

from mathlib.prover.modular import inverse
from mathlib.workshop.budgets import alone
from mathlib.workshop.case import case, compared
from mathlib.workshop.collectives import all_reduce, reduce_scatter
from mathlib.workshop.diagnosis import each_rank, sum_differs, total
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.sketch import fault, parts
from mathlib.workshop.tensor import Tensor, join, zeros

MODEL = Network(layers=1)
WEIGHTS = join(MODEL.weights())
Rows = Sequence[Sequence[Tensor]]  # gradients [rank][micro-batch]


async def scaled_each_time(me, model, weights, batches):
    gradient = zeros(len(weights))
    for batch in batches:
        gradient += model.whole_gradient(weights, batch)
        gradient = gradient / len(batches)
    return await all_reduce(me, gradient) / me.size


async def reduced_each_time(me, model, weights, batches):
    gradient = zeros(len(weights))
    for batch in batches:
        gradient += model.whole_gradient(weights, batch)
        gradient = await all_reduce(me, gradient)
    return gradient / (me.size * len(batches))


def data(n: int, m: int) -> list[list[Batch]]:
    """Every rank's micro-batches."""
    return [[MODEL.batch(f"rank {r}, micro-batch {i}", 2) for i in range(m)] for r in range(n)]


def gradients(batches: Sequence[Sequence[Batch]], weights: Tensor) -> list[list[Tensor]]:
    """One for each micro-batch."""
    return [[MODEL.whole_gradient(weights, batch) for batch in row] for row in batches]


def mean(rows: Rows) -> Tensor:
    """Over all micro-batches of all ranks."""
    return total([total(row) for row in rows]) / sum(map(len, rows))


def faded(rows: Rows) -> Tensor:
    """What is divided by m after each micro-batch."""
    summed = rows[0][0] * 0
    for i, _ in enumerate(rows[0]):
        summed = (summed + total([row[i] for row in rows])) / len(rows[0])
    return summed / len(rows)


def repeated(rows: Rows) -> Tensor:
    """What is summed over ranks after each micro-batch."""
    summed = rows[0][0] * 0
    for i, _ in enumerate(rows[0]):
        summed = summed * len(rows) + total([row[i] for row in rows])
    return summed / sum(map(len, rows))


def accumulating(n: int, m: int, says: str, mistake: Callable[[Rows], Tensor]) -> Trial:
    """The mean gradient, on every rank."""
    batches = data(n, m)
    rows = gradients(batches, WEIGHTS)
    return compared(
        f"{n} ranks, {m} micro-batches each",
        lambda me: [MODEL, WEIGHTS[:], batches[me.rank]],
        [mean(rows)] * n,
        {says: [mistake(rows)] * n},
    )


async def last_micro_batch_only(me, model, weights, batches):
    shard = zeros(len(weights)).shards(me.size)[me.rank]
    for batch in batches:
        gradient = model.whole_gradient(weights, batch)
        shard = await reduce_scatter(me, gradient)
    return shard / (me.size * len(batches))


def sharding(n: int, m: int) -> Trial:
    """A shard of the mean gradient."""
    batches = data(n, m)
    rows = gradients(batches, WEIGHTS)
    summed = [total(of).shards(n) for of in zip(*rows, strict=True)]  # [micro-batch][rank]

    def wrong(rank: int, got: Tensor) -> str:
        own = [part[rank] / n for part in summed]
        return sum_differs(got, own, "gradient", None, mean=True, who="micro-batch")

    return Trial(
        f"{n} ranks, {m} micro-batches each",
        alone(n),
        lambda me: [MODEL, WEIGHTS[:], batches[me.rank]],
        lambda out: each_rank(out.results, wrong),
    )


async def rate_of_a_micro_batch(me, model, weights, rounds, schedule):
    step = 0
    for batches in rounds:
        gradient = zeros(len(weights))
        for batch in batches:
            gradient += model.whole_gradient(weights, batch)
            step += 1
        mean = await all_reduce(me, gradient) / (me.size * len(batches))
        weights = weights - mean * schedule(step)
    return weights


def scheduled(n: int, rounds: int, m: int) -> Trial:
    """Weights after some steps, each with its own rate."""
    every = [[data(n, m * rounds)[r][i * m : i * m + m] for i in range(rounds)] for r in range(n)]

    def after(stride: int) -> Tensor:
        weights = WEIGHTS
        for i in range(rounds):
            step = mean(gradients([of[i] for of in every], weights))
            weights = weights - step * inverse((i + 1) * stride + 6)
        return weights

    return compared(
        f"{n} ranks, {rounds} steps of {m} micro-batches",
        lambda me: [MODEL, WEIGHTS[:], every[me.rank], lambda step: inverse(step + 6)],
        [after(1)] * n,
        {"counts micro-batches where the schedule counts steps": [after(m)] * n},
    )


CASES = [
    case(
        scaled_each_time,
        title="Gradients that fade while they accumulate",
        chapter="data_parallel",
        thread="pytorch/torchtitan#1733",
        task="""\
With accumulation the loss follows another curve than without, and gradient norms are far too
small. All micro-batches have as many tokens. The result must be the mean gradient over all
micro-batches of all ranks.""",
        hints=(
            "How often is the first micro-batch's gradient divided, and how often the last one's?",
            "What has been accumulated is divided again after each micro-batch: a moving average.",
            "Divide once, behind the loop: by `me.size * len(batches)`.",
        ),
        edit=(
            "        gradient = gradient / len(batches)\n"
            "    return await all_reduce(me, gradient) / me.size\n",
            "    return await all_reduce(me, gradient) / (me.size * len(batches))\n",
        ),
        sketch=fault(
            2,
            lambda r: parts("gradients", "1/8", "1/4", "1/2"),
            lambda r: parts("gradients", "1/3", "1/3", "1/3"),
        ),
        trials=lambda: [
            accumulating(n, m, "has a moving average: early micro-batches weigh less", faded)
            for n, m in ((2, 3), (3, 2))
        ],
    ),
    case(
        reduced_each_time,
        title="Summed, and summed again",
        chapter="data_parallel",
        thread="hpcaitech/ColossalAI#247",
        task="""\
ZeRO does not work together with accumulation: gradients are reduced more than once. All
micro-batches have as many tokens. The result must be the mean gradient over all micro-batches of
all ranks.""",
        hints=(
            "What does the second all-reduce sum: a rank's own gradient, or more?",
            "The sum over ranks stays in `gradient`, and the next all-reduce sums it once more.",
            "One all-reduce, behind the loop.",
        ),
        edit=(
            "        gradient = await all_reduce(me, gradient)\n",
            "    gradient = await all_reduce(me, gradient)\n",
        ),
        sketch=fault(
            2,
            lambda r: parts("gradients", "4 x", "2 x", "1 x"),
            lambda r: parts("gradients", "1 x", "1 x", "1 x"),
        ),
        trials=lambda: [
            accumulating(
                n, m, "has summed what was a sum over ranks: early terms count N times", repeated
            )
            for n, m in ((2, 3), (3, 2))
        ],
    ),
    case(
        last_micro_batch_only,
        title="Only the last micro-batch counts",
        chapter="zero",
        thread="allenai/open-instruct#1498",
        task="""\
Accumulation by hand over ZeRO-2 gives the gradient of the last micro-batch. The others are lost:
each backward is taken for the end of a step. The result must be this rank's shard of the mean
gradient over all micro-batches of all ranks.""",
        hints=(
            "What is in `shard` before a reduce-scatter, and what after it?",
            "Each micro-batch overwrites the shard of the one before it.",
            "`shard += await reduce_scatter(me, gradient)`.",
        ),
        edit=("shard = await reduce_scatter", "shard += await reduce_scatter"),
        sketch=fault(
            2,
            lambda r: parts("gradients", 2),
            lambda r: parts("gradients", 0, 1, 2),
        ),
        trials=lambda: [sharding(2, 3), sharding(3, 2), sharding(4, 2)],
    ),
    case(
        rate_of_a_micro_batch,
        title="A learning rate that falls too fast",
        chapter="data_parallel",
        thread="huggingface/accelerate#963",
        task="""\
With accumulation the scheduler changes the learning rate at every micro-batch, though the optimizer
takes no step there. `schedule(k)` is the rate of step k, from 1 on. `rounds` has the micro-batches
of each step. The weights must be those of one process after as many steps.""",
        hints=(
            "With which number is `schedule` asked in the first step?",
            "`step` counts micro-batches; the schedule counts steps of the optimizer.",
            "Count once a round: `step += 1` behind the inner loop.",
        ),
        edit=("            step += 1\n", "        step += 1\n"),
        sketch=fault(
            2,
            lambda r: parts("other", "rate 3", "rate 6"),
            lambda r: parts("other", "rate 1", "rate 2"),
        ),
        trials=lambda: [scheduled(2, 2, 2), scheduled(2, 1, 3)],
    ),
]
