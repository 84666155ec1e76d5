"""Tied embeddings over pipeline stages.  p stages, d replicas of the pipeline, K bytes."""

from typing import Any

from mathlib.prover.modular import inverse
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import each_rank, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import COLLECTIVES, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor

RATE, NUMBERS = inverse(7), 12


async def start(me, stages, embedding, gradient, rate):
    if embedding is None:
        return None
    stage = me.rank % stages
    replicas = list(range(stage, me.size, stages))
    gradient = await all_reduce(me, gradient, replicas) / len(replicas)
    return embedding - gradient * rate


async def solution(me, stages, embedding, gradient, rate):
    if embedding is None:
        return None
    ends = [r for r in range(me.size) if r % stages in (0, stages - 1)]
    gradient = await all_reduce(me, gradient, ends) / (me.size // stages)
    return embedding - gradient * rate


def trial(stages: int, replicas: int) -> Trial:
    """The embedding of one process after a step, on both ends of every replica."""
    n = stages * replicas
    ends = [r for r in range(n) if r % stages in (0, stages - 1)]
    embedding = drawn("embedding", NUMBERS)
    parts = {r: drawn(f"gradient of rank {r}", NUMBERS) for r in ends}
    return Trial(
        f"{stages} stages, {replicas} replicas",
        budgets.alone(n),
        lambda me: [
            stages,
            *([embedding[:], parts[me.rank][:]] if me.rank in ends else [None, None]),
            RATE,
        ],
        lambda out: each_rank(
            out.results, lambda r, x: wrong(r, x, embedding, parts, replicas) if r in ends else ""
        ),
        (budgets.sent("2 K (n-1)/n among n ends", "all-reduce", numbers=NUMBERS, ranks=len(ends)),),
    )


def wrong(rank: int, got: Any, embedding: Tensor, parts: dict[int, Tensor], replicas: int) -> str:
    """What is wrong with a rank's embedding, by the gradient that it used."""
    if getattr(got, "shape", ()) != embedding.shape:
        return f"returns {got!r}: expected the embedding, a {embedding}"
    used = (embedding - got) * inverse(RATE) * replicas
    ends = list(parts)
    said = sum_differs(used, list(parts.values()), "gradient", ends.index(rank), of=ends)
    if said == "has the mean of all gradients: expected their sum":
        return "divides by the number of ends: expected the sum of both, and a mean over replicas"
    return said


PUZZLE = Puzzle(
    name="tied",
    title="Tied embeddings over stages",
    chapter="pipeline",
    grade=1,
    task="""\
A pipeline's first stage looks up words in a matrix, and its last stage uses the same matrix as
its head. Both stages have a copy, and each comes to a gradient of its own. There are several
replicas of the pipeline, each with its own batch: rank r is stage r % stages of replica r //
stages. The gradient is the sum of both ends', and the mean over replicas. Return the new
embedding, embedding - rate * gradient, on the ends, and None on the stages between.""",
    hints=(
        "If each end only meets its own replicas, the two copies diverge.",
        "The first and the last stages of all replicas are one group.",
        "An all-reduce over that group sums ends and replicas; divide by the replicas only.",
    ),
    sketch=sketch(
        4,
        lambda r: [*parts("embedding", "E"), of(r)],
        lambda r: [*parts("embedding", "new"), of(0, 1, 2, 3)],
        who="end",
    ),
    trials=lambda: [trial(2, 2), trial(4, 1), trial(3, 2)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
