"""Which data a rank reads, and what it keeps of them.  N ranks."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from mathlib.checks import InputError
from mathlib.prover.modular import inverse
from mathlib.workshop.budgets import alone
from mathlib.workshop.case import case, compared
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import each_rank, listed, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.ranks import Outcome
from mathlib.workshop.sketch import fault, of, parts
from mathlib.workshop.tensor import Tensor, join, vector, zeros

RATE, MODEL, MOMENTUM = inverse(7), Network(layers=1), 9  # of ten, for a running mean


async def same_batch(me, model, weights, read, steps, rate):
    for step in range(steps):
        batch = read(step)
        gradient = await all_reduce(me, model.whole_gradient(weights, batch)) / me.size
        weights = weights - gradient * rate
    return weights


def trained(steps: Sequence[Sequence[Batch]]) -> Tensor:
    """Weights of one process after steps on the mean over some batches."""
    weights = join(MODEL.weights())
    for batches in steps:
        parts = [MODEL.whole_gradient(weights, batch) for batch in batches]
        weights = weights - sum(parts[1:], parts[0]) * RATE / len(parts)
    return weights


def reading(n: int, steps: int) -> Trial:
    """The batches of a step, one on each rank."""
    data = [MODEL.batch(f"batch {i}", 2) for i in range(n * steps)]
    right = trained([data[s * n : s * n + n] for s in range(steps)])
    same = trained([[data[s]] for s in range(steps)])
    return compared(
        f"{n} ranks, {steps} steps",
        lambda me: [MODEL, join(MODEL.weights()), lambda i: data[i], steps, RATE],
        [right] * n,
        {"has the weights of one rank alone: every rank reads the same batches": [same] * n},
    )


async def seeds_differ(me, shuffled, seed):
    order = shuffled(seed + me.rank)
    return order[me.rank :: me.size]


def shuffling(n: int, samples: int) -> Trial:
    """Every sample on one rank."""

    def shuffled(seed: int) -> list[int]:
        order = list(range(samples))
        Random(seed).shuffle(order)
        return order

    def wrong(out: Outcome) -> Iterator[str]:
        for sample in range(samples):
            by = [r for r, got in enumerate(out.results) if got and sample in got]
            if len(by) != 1:
                yield f"sample {sample} is on {listed('rank', by) if by else 'no rank'}"
        for rank, got in enumerate(out.results):
            if got != shuffled(5)[rank::n]:
                yield f"rank {rank} has samples {got}: expected {shuffled(5)[rank::n]}"

    title = f"{n} ranks, {samples} samples"
    return Trial(title, alone(n), lambda me: [shuffled, 5], wrong)


async def padded_samples(me, count, right):
    each = (count + me.size - 1) // me.size
    places = [(me.rank + i * me.size) % count for i in range(each)]
    sums = await all_reduce(me, vector([sum(map(right, places)), len(places)]))
    return sums[0] / sums[1].item()


def is_right(samples: int) -> Callable[[int], int]:
    """Two of three are."""

    def right(i: int) -> int:
        if i not in range(samples):
            raise InputError(f"right({i}): expected a sample, 0 to {samples - 1}")
        return 1 - i % 3 % 2

    return right


def evaluating(n: int, samples: int) -> Trial:
    """The share of samples that are right."""
    right = is_right(samples)
    padded = [right(i % samples) for i in range(-(-samples // n) * n)]
    return compared(
        f"{n} ranks, {samples} samples",
        lambda me: [samples, right],
        [vector([sum(map(right, range(samples)))]) / samples] * n,
        {
            f"counts {len(padded)} samples of {samples}: some are counted twice": [
                vector([sum(padded)]) / len(padded)
            ]
            * n
        },
    )


async def own_buffers(me, means):
    running = zeros(len(means[0]))
    for mean in means:
        running = (running * 9 + mean) / 10
    return running


def tracking(n: int, batches: int) -> Trial:
    """A running mean over the batches of all ranks."""
    means = [[drawn(f"mean {r} {i}", 4) for i in range(batches)] for r in range(n)]
    ends = []
    for row in means:
        running = zeros(4)
        for mean in row:
            running = (running * MOMENTUM + mean) / (MOMENTUM + 1)
        ends.append(running)
    said = "running mean"

    def wrong(rank: int, got: Any) -> str:
        return sum_differs(got, ends, said, rank, mean=True)

    return Trial(
        f"{n} ranks, {batches} batches each",
        alone(n),
        lambda me: [means[me.rank]],
        lambda out: each_rank(out.results, wrong),
    )


CASES = [
    case(
        same_batch,
        title="More ranks, no faster",
        chapter="data_parallel",
        thread="karpathy/llama2.c#522",
        task="""\
Somebody trains with DDP and asks where the data are divided: no sampler is to be seen. `read(i)`
is batch i. A step on N ranks takes the next N batches, one on each rank, and its weights must be
those of one process that sees all of them.""",
        hints=(
            "Print `step` and `me.rank` beside what is read.",
            "All ranks read the same batch, so that their mean is that of one rank.",
            "Rank r of step s reads batch s N + r: `read(step * me.size + me.rank)`.",
        ),
        edit=("read(step)", "read(step * me.size + me.rank)"),
        sketch=fault(
            3,
            lambda r: parts("activations", 0, 1),
            lambda r: parts("activations", r, 3 + r),
        ),
        trials=lambda: [reading(2, 2), reading(3, 2)],
    ),
    case(
        seeds_differ,
        title="Samples seen twice, and samples never seen",
        chapter="data_parallel",
        thread="NVlabs/LongLive#71",
        task="""\
Each rank gives its sampler a seed of its own, and the shuffled data overlap. `shuffled(seed)` is
the order of all samples. A rank takes every N-th of them, from its own number on. In an epoch
every sample must be on one rank.""",
        hints=(
            "Whose order does rank 1 cut, and whose does rank 0?",
            "Pieces of one order are disjoint; pieces of two orders are not.",
            "The same seed on every rank: `shuffled(seed)`.",
        ),
        edit=("shuffled(seed + me.rank)", "shuffled(seed)"),
        sketch=fault(
            2,
            lambda r: parts("activations", *((2, 0, 3), (3, 1, 2))[r]),
            lambda r: parts("activations", *((2, 0, 3), (5, 1, 4))[r]),
        ),
        trials=lambda: [shuffling(2, 8), shuffling(3, 10)],
    ),
    case(
        padded_samples,
        title="An accuracy that depends on the number of GPUs",
        chapter="data_parallel",
        thread="pytorch/pytorch#25162",
        task="""\
The validation accuracy is another one with each number of processes. Ranks share `count` samples,
and `right(i)` is 1 where sample i is classified as it should be, else 0. So that all ranks have as
many, the sampler begins again at the first sample. The result must be the accuracy over the
samples, each counted once.""",
        hints=(
            "How many samples do all ranks count, of how many?",
            "In training a repeated sample does little harm; here it is counted.",
            "Leave out what lies behind the last sample: `if me.rank + i * me.size < count`.",
        ),
        edit=(
            "(me.rank + i * me.size) % count for i in range(each)",
            "me.rank + i * me.size for i in range(each) if me.rank + i * me.size < count",
        ),
        sketch=fault(
            2,
            lambda r: parts("activations", *((0, 2, 4), (1, 3, 0))[r]),
            lambda r: parts("activations", *((0, 2, 4), (1, 3))[r]),
        ),
        trials=lambda: [evaluating(2, 5), evaluating(3, 7), evaluating(4, 9)],
    ),
    case(
        own_buffers,
        title="Evaluated with the statistics of one GPU",
        chapter="data_parallel",
        thread="mlcommons/training#289",
        task="""\
A model is evaluated with the running means of batch normalization that one GPU has, and these saw
a small part of the data. Gradients are averaged in each step, running means are not: they are
buffers, no parameters. `means` are those of a rank's batches. Every rank must end with the mean
over all ranks of the running means.""",
        hints=(
            "What do the ranks return, and is it the same?",
            "A buffer has no gradient: no all-reduce of gradients sees it.",
            "`return await all_reduce(me, running) / me.size`.",
        ),
        edit=("    return running\n", "    return await all_reduce(me, running) / me.size\n"),
        sketch=fault(3, lambda r: [of(r)], lambda r: [of(0, 1, 2)]),
        trials=lambda: [tracking(2, 3), tracking(4, 2)],
    ),
]
