"""Accumulation over micro-batches of unequal numbers of tokens.  N ranks, K bytes."""

from collections.abc import Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import differs, each_rank, total
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import COLLECTIVES, Puzzle, Trial, text_of
from mathlib.workshop.sketch import Part, parts, sketch
from mathlib.workshop.tensor import Tensor, join, vector, zeros

RATE = inverse(7)
MODEL = Network(layers=1)


async def start(me, model, weights, batches, rate):
    gradient = zeros(len(weights))
    for batch in batches:
        gradient += model.whole_gradient(weights, batch) / len(batches)
    gradient = await all_reduce(me, gradient) / me.size
    return weights - gradient * rate


async def solution(me, model, weights, batches, rate):
    gradient, tokens = zeros(len(weights)), 0
    for batch in batches:
        count = len(batch[0])
        gradient += model.whole_gradient(weights, batch) * count
        tokens += count
    summed = await all_reduce(me, join([gradient, vector([tokens])]))
    return weights - summed[:-1] / summed[-1:].item() * rate


def trial(*tokens: Sequence[int]) -> Trial:
    """The tokens of every micro-batch of every rank."""
    n, weights = len(tokens), join(MODEL.weights())
    batches = [
        [MODEL.batch(f"rank {r}, micro-batch {i}", count) for i, count in enumerate(row)]
        for r, row in enumerate(tokens)
    ]
    known = mistakes(weights, batches)
    wanted = known.pop("")
    return Trial(
        f"micro-batches of {' | '.join(' '.join(map(str, row)) for row in tokens)} tokens",
        budgets.alone(n),
        lambda me: [MODEL, weights[:], batches[me.rank], RATE],
        lambda out: each_rank(
            out.results,
            lambda r, x: differs(x, wanted, known | own(weights, batches[r])),
        ),
        (
            budgets.sent(
                "2 (K + N numbers) (N-1)/N", "all-reduce", numbers=len(weights) + n, ranks=n
            ),
        ),
    )


def mistakes(weights: Tensor, batches: Sequence[Sequence[Batch]]) -> dict[str, Tensor]:
    """Weights after one step by the right mean, "", and by others, by their names."""

    def mean_of(rows: Sequence[Batch]) -> Tensor:
        count = sum(len(batch[0]) for batch in rows)
        parts = [MODEL.whole_gradient(weights, batch) * len(batch[0]) for batch in rows]
        return total(parts) / count

    every = [batch for row in batches for batch in row]
    rows = [total([mean_of([batch]) for batch in row]) / len(row) for row in batches]
    tokens = "a mean over tokens weighs every token alike"
    used = {
        f"weighs every rank alike: {tokens}": total([mean_of(row) for row in batches])
        / len(batches),
        f"weighs a rank's micro-batches alike: {tokens}": total(rows) / len(batches),
        f"weighs all micro-batches alike: {tokens}": total([mean_of([batch]) for batch in every])
        / len(every),
        "has a sum over tokens: expected their mean": mean_of(every)
        * sum(len(batch[0]) for batch in every),
        "has a sum of the micro-batches' means": total([mean_of([batch]) for batch in every]),
        "uses its last micro-batch only": mean_of([row[-1] for row in batches]),
        "": mean_of(every),
    }
    return {said: weights - gradient * RATE for said, gradient in used.items()}


def own(weights: Tensor, row: Sequence[Batch]) -> dict[str, Tensor]:
    """What a rank alone would have."""
    found: dict[str, Any] = mistakes(weights, [row])
    return {"has the mean over its own tokens only": found[""]}


PUZZLE = Puzzle(
    name="accumulate",
    title="Accumulation with unequal tokens",
    chapter="unequal",
    grade=2,
    task="""\
Each rank accumulates the gradients of some micro-batches, and then all take one step together.
Micro-batches have unequal numbers of tokens, `len(batch[0])`. `model.whole_gradient(weights,
batch)` is the gradient of the mean over the tokens of one batch. The step must be that of one
process whose loss is the mean over all tokens of all ranks. Return the new weights, and send
one all-reduce of the gradient and a few numbers.""",
    hints=(
        "A mean of means weighs a token of a small micro-batch more than one of a large one.",
        "Times its number of tokens, a batch's mean gradient is the sum over its tokens.",
        "Sum gradients and tokens over all ranks, in one vector, and divide at the end.",
    ),
    sketch=sketch(
        2,
        lambda r: [Part("activations", f"{n}", n / 2) for n in ((1, 3), (2, 4))[r]],
        lambda r: parts("weights", "new") + parts("other", "10 tokens"),
    ),
    trials=lambda: [trial([1, 3], [2, 4]), trial([2], [1], [5]), trial([1, 4, 2], [3])],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
