"""ZeRO-2: gradients are sharded as soon as backward has them.  N ranks, P parameters, L layers."""

from collections.abc import Iterator, Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.traffic import volumes
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_gather, reduce_scatter
from mathlib.workshop.diagnosis import each_rank, sum_differs
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor, join, zeros

RATE = inverse(7)
MODEL = Network(layers=6)
ROOM = 4  # layers' worth of numbers for what is in flight


async def start(me, backward, weights, batches, rate):
    gradients = [zeros(len(w)) for w in weights]
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            gradients[layer] += gradient / (me.size * len(batches))
    for layer, gradient in enumerate(gradients):
        shard = weights[layer].shards(me.size)[me.rank]
        shard -= gradient.shards(me.size)[me.rank] * rate
        weights[layer] = await all_gather(me, shard)
    return weights


async def solution(me, backward, weights, batches, rate):
    shards = [zeros(len(w.shards(me.size)[me.rank])) for w in weights]
    for batch in batches:
        for layer, gradient in backward(weights, batch):
            shards[layer] += await reduce_scatter(me, gradient)
    for layer, shard in enumerate(shards):
        own = weights[layer].shards(me.size)[me.rank]
        own -= shard / (me.size * len(batches)) * rate
        weights[layer] = await all_gather(me, own)
    return weights


def backward(weights: Sequence[Tensor], batch: Batch) -> Iterator[tuple[int, Tensor]]:
    """Each layer's number and gradient, the last one first; nothing of it is kept here."""
    (x, target), inputs = batch, list[Tensor]()
    for w in weights:
        inputs.append(x)
        x = MODEL.forward(w, x)
    dy = (x - target) * 2 / len(target)
    for layer in reversed(range(len(weights))):
        dy, gradient = MODEL.backward(weights[layer], inputs.pop(), dy)
        yield layer, gradient
        del gradient


def trial(n: int, m: int) -> Trial:
    """m micro-batches a rank, and the weights of one process after a step."""
    weights = MODEL.weights()
    batches = [[MODEL.batch(f"rank {r}, {i}", 1) for i in range(m)] for r in range(n)]
    means = [mean_gradient(weights, row) for row in batches]
    return Trial(
        f"{n} ranks, {m} micro-batches each",
        budgets.alone(n),
        lambda me: [backward, [w[:] for w in weights], copies(batches[me.rank]), RATE],
        lambda out: each_rank(out.results, lambda r, x: wrong(x, weights, means, r)),
        most(n, m),
    )


def most(n: int, m: int) -> tuple[Budget, ...]:
    """Bytes of ZeRO-2, and all that a rank holds at its fullest."""
    P = MODEL.layers * MODEL.layer_numbers
    bytes_: dict[str, Any] = {"weight_bytes": NUMBER, "gradient_bytes": NUMBER}
    sent = volumes.zero(parameters=P, data=n, stage=2, micro_batches=m, **bytes_).total
    even = MODEL.layer_numbers % n == 0
    inside = 2 * m * MODEL.width + MODEL.layers * MODEL.width
    live = P + P / n + ROOM * MODEL.layer_numbers + inside
    held = f"P + P/N, activations and {ROOM} layers' worth of what is in flight"
    most = (Budget("bytes sent", sent, f"(m + 1) P (N-1)/N for m = {m} micro-batches"),)
    return (*(most if even else ()), Budget("live numbers", live, held))


def copies(row: Sequence[Batch]) -> list[Batch]:
    """A rank's own data."""
    return [(x[:], target[:]) for x, target in row]


def mean_gradient(weights: Sequence[Tensor], row: Sequence[Batch]) -> Tensor:
    """Of a rank's micro-batches, all layers in one vector."""
    found = [join(MODEL.gradient(weights, batch)) for batch in row]
    return sum(found[1:], found[0]) / len(found)


def wrong(got: object, weights: Sequence[Tensor], means: Sequence[Tensor], rank: int) -> str:
    """What is wrong with a rank's weights, by the gradient that it used."""
    if not isinstance(got, list) or [getattr(w, "shape", ()) for w in got] != [
        w.shape for w in weights
    ]:
        return f"returns {got!r}: expected a list of all layers' weights"
    used = (join(weights) - join(got)) * inverse(RATE)
    return sum_differs(used, means, "gradient", rank, mean=True)


PUZZLE = Puzzle(
    name="zero2",
    title="ZeRO-2: sharded gradients",
    chapter="zero",
    grade=2,
    task="""\
Every rank has all weights, a list of one vector for each layer, and a few micro-batches of one
token. `for layer, gradient in backward(weights, batch)` hands out gradients from the last layer
to the first. A rank may keep only its shard of each layer's gradient, so that it holds P/N
instead of P numbers. Take one step of gradient descent with the mean over all micro-batches of
all ranks. Return the list of all weights, within the limit of live numbers.""",
    hints=(
        "Do not collect gradients: shard each one before backward goes on to the next layer.",
        "`shards[layer] += await reduce_scatter(me, gradient)`, for every micro-batch.",
        "At the end update a shard of each layer's weights, and `all_gather` it.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("weights", 0, 1, 2) + [of(r)] * 3,
        lambda r: parts("weights", 0, 1, 2) + [of(0, 1, 2)],
    ),
    trials=lambda: [trial(3, 1), trial(3, 2), trial(2, 3), trial(4, 1)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
