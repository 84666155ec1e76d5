"""ZeRO-3: weights are sharded, and gathered layer by layer.  N ranks, P parameters, L layers."""

from collections.abc import Iterator, Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.traffic import volumes
from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_gather, reduce_scatter
from mathlib.workshop.diagnosis import each_rank, sum_differs
from mathlib.workshop.network import Network
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor, join

RATE = inverse(7)
MODEL = Network(layers=6)
ROOM = 5  # layers' worth of numbers: weights, their gradient, and shards in flight


async def start(me, model, shards, batch, rate):
    weights = [await all_gather(me, shard) for shard in shards]
    for i, gradient in enumerate(model.gradient(weights, batch)):
        shards[i] -= await reduce_scatter(me, gradient) / me.size * rate
    return shards


async def solution(me, model, shards, batch, rate):
    (x, target), inputs = batch, []
    for shard in shards:
        inputs.append(x)
        x = model.forward(await all_gather(me, shard), x)
    dy = (x - target) * 2 / len(target)
    for i in reversed(range(len(shards))):
        dy, gradient = model.backward(await all_gather(me, shards[i]), inputs.pop(), dy)
        shards[i] -= await reduce_scatter(me, gradient) / me.size * rate
    return shards


def trial(n: int, tokens: int) -> Trial:
    """The weights of one process after a step, a shard on each rank."""
    weights = MODEL.weights()
    batches = [MODEL.batch(f"rank {r}", tokens) for r in range(n)]
    gradients = [join(MODEL.gradient(weights, batch)) for batch in batches]
    return Trial(
        f"{n} ranks, {tokens} tokens each",
        budgets.alone(n),
        lambda me: [
            MODEL,
            [w.shards(n)[me.rank] for w in weights],
            tuple(part[:] for part in batches[me.rank]),
            RATE,
        ],
        lambda out: wrong(out.results, weights, gradients),
        most(n, tokens),
    )


def most(n: int, tokens: int) -> tuple[Budget, ...]:
    """Bytes of ZeRO-3, and all that a rank holds at its fullest."""
    P = MODEL.layers * MODEL.layer_numbers
    bytes_: dict[str, Any] = {"weight_bytes": NUMBER, "gradient_bytes": NUMBER}
    sent = volumes.zero(parameters=P, data=n, stage=3, **bytes_).total
    live = P / n + ROOM * MODEL.layer_numbers + (MODEL.layers + 3) * tokens * MODEL.width
    return (
        Budget("bytes sent", sent, "3 P (N-1)/N"),
        Budget("live numbers", live, f"P/N, activations and {ROOM} layers' worth"),
    )


def wrong(
    results: Sequence[Any], weights: Sequence[Tensor], gradients: Sequence[Tensor]
) -> Iterator[str]:
    """What is wrong with the shards, by the gradient that their rank used."""
    n = len(results)
    for layer in range(MODEL.layers):
        own = [g.shards(MODEL.layers)[layer].shards(n) for g in gradients]

        def says(r: int, got: Any, layer: int = layer, own: Any = own) -> str:
            before = [w.shards(n)[r] for w in weights]
            if not isinstance(got, list) or [getattr(w, "shape", ()) for w in got] != [
                w.shape for w in before
            ]:
                return f"returns {got!r}: expected a list of its shards, one for each layer"
            used = (before[layer] - got[layer]) * inverse(RATE)
            return sum_differs(used, [of[r] for of in own], "gradient", r, mean=True)

        for said in each_rank(results, says):
            yield f"layer {layer}: {said}"


PUZZLE = Puzzle(
    name="zero3",
    title="ZeRO-3: sharded weights",
    chapter="zero",
    grade=3,
    task="""\
A rank has a shard of each layer's weights, and never room for all weights. Forward gathers a
layer's weights, computes `x = model.forward(weights, x)`, and lets them go. Backward gathers
them once more: `dx, gradient = model.backward(weights, x, dy)`, with the layer's own input x,
from `dy = (x - target) * 2 / len(target)` at the end of the model. A gradient is reduce-scattered
before the next layer's turn. Return the list of new shards, weights - rate * mean gradient,
within the limit of live numbers.""",
    hints=(
        "Keep every layer's input, and no layer's weights.",
        "A variable keeps what it holds: `del`, or pass the gathered weights on without a name.",
        "3 P (N-1)/N: two gathers and one reduce-scatter of each layer.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("weights", r) + parts("activations", f"batch {r}"),
        lambda r: parts("weights", r) + [of(0, 1, 2)],
    ),
    trials=lambda: [trial(3, 2), trial(2, 1), trial(6, 1)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
