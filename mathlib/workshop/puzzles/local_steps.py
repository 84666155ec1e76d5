"""Local steps with outer momentum.  N ranks that meet every H steps, K bytes of weights."""

from collections.abc import Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.traffic import compressed
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import differs, each_rank, total
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor, join, zeros

RATE, BETA = inverse(7), 3
MODEL = Network(layers=1)


async def start(me, model, weights, rounds, rate, beta):
    seen = []
    for batches in rounds:
        for batch in batches:
            gradient = await all_reduce(me, model.whole_gradient(weights, batch)) / me.size
            weights = weights - gradient * rate
        seen.append(weights)
    return seen


async def solution(me, model, weights, rounds, rate, beta):
    seen, momentum = [], zeros(len(weights))
    for batches in rounds:
        local = weights
        for batch in batches:
            local = local - model.whole_gradient(local, batch) * rate
        moved = await all_reduce(me, local - weights) / me.size
        momentum = momentum * beta + moved
        weights = weights + momentum
        seen.append(weights)
    return seen


def local(weights: Tensor, batches: Sequence[Batch]) -> Tensor:
    """Weights after some steps of a rank alone."""
    for batch in batches:
        weights = weights - MODEL.whole_gradient(weights, batch) * RATE
    return weights


def trial(n: int, rounds: int, steps: int) -> Trial:
    """Weights after each round."""
    data = [
        [[MODEL.batch(f"rank {r}, {i}, {s}", 2) for s in range(steps)] for i in range(rounds)]
        for r in range(n)
    ]
    first = join(MODEL.weights())
    after, momentum = [first], zeros(len(first))
    for i in range(rounds):
        moved = total([local(after[-1], of[i]) - after[-1] for of in data]) / n
        momentum = momentum * BETA + moved
        after.append(after[-1] + momentum)
    payload = NUMBER * len(first)
    each = compressed.local_steps(payload=payload, ranks=n, steps=steps)["on average"]
    return Trial(
        f"{n} ranks, {rounds} rounds of {steps} steps",
        budgets.alone(n),
        lambda me: [MODEL, first[:], data[me.rank], RATE, BETA],
        lambda out: wrong(out.results, after, data),
        (Budget("bytes sent", rounds * steps * each, "2 K/H (N-1)/N a step"),),
    )


def wrong(results: Sequence[Any], after: Sequence[Tensor], data: Sequence[Any]) -> Any:
    """Round by round."""
    for i, before in enumerate(after[:-1]):
        ends = [local(before, of[i]) for of in data]
        mean = total(ends) / len(ends)

        def says(r: int, got: Any, i: int = i, ends: Any = ends, mean: Tensor = mean) -> str:
            if not isinstance(got, list) or len(got) != len(after) - 1:
                return f"returns {got!r}: expected a list of its weights after each round"
            known = {
                "still has its own weights": ends[r],
                "has the mean of all weights: the outer momentum is missing": mean,
                "has a sum where a mean is expected": after[i]
                + total([e - after[i] for e in ends]),
                "has the weights that it began with": after[i],
                "has the steps of one process: local steps use a rank's own weights": together(
                    after[i], [of[i] for of in data]
                ),
            }
            return differs(got[i], after[i + 1], known)

        for said in each_rank(results, says):
            yield f"round {i + 1}: {said}"


def together(weights: Tensor, rows: Sequence[Sequence[Batch]]) -> Tensor:
    """Where ranks meet in every step."""
    for batches in zip(*rows, strict=True):
        mean = total([MODEL.whole_gradient(weights, batch) for batch in batches]) / len(batches)
        weights = weights - mean * RATE
    return weights


PUZZLE = Puzzle(
    name="local-steps",
    title="Local steps",
    chapter="links",
    grade=2,
    task="""\
Over slow links ranks meet only now and then: in a round, a list of batches, each takes its
steps of gradient descent alone. At the round's end a rank has moved from the weights of its
beginning, and all ranks take the mean of their moves. The mean goes through an outer momentum
that begins with zeros: momentum = beta * momentum + move, weights = weights + momentum. All
ranks begin the next round with the same weights. Return the list of weights after each round,
with one all-reduce a round.""",
    hints=(
        "Keep the weights of the round's beginning beside the local ones.",
        "A move is local - weights; its mean is an all-reduce over `me.size`.",
        "The next round begins at the new weights, on every rank.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("weights", "W") + parts("activations", *(f"{i}" for i in range(3))),
        lambda r: parts("weights", "new") + [of(0, 1, 2)] + parts("optimizer", "m"),
    ),
    trials=lambda: [trial(2, 2, 2), trial(3, 2, 3), trial(2, 3, 1)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
