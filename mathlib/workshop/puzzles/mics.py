"""MiCS: weights are sharded over a node, not over all.  N ranks, S in a node, P parameters."""

from collections.abc import Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import volumes
from mathlib.workshop.collectives import all_gather, all_reduce, reduce_scatter
from mathlib.workshop.diagnosis import each_rank, sum_differs
from mathlib.workshop.network import Network
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor, join

RATE = inverse(7)
MODEL = Network()
INSIDE, BETWEEN = Link(40.0, 0.1), Link(4.0, 1.0)


async def start(me, model, shard, batch, rate, node_size):
    first = me.rank - me.rank % node_size
    node = list(range(first, first + node_size))
    weights = await all_gather(me, shard, node)
    gradient = await reduce_scatter(me, model.whole_gradient(weights, batch), node)
    return shard - gradient / node_size * rate


async def solution(me, model, shard, batch, rate, node_size):
    first = me.rank - me.rank % node_size
    node = list(range(first, first + node_size))
    replicas = list(range(me.rank % node_size, me.size, node_size))
    weights = await all_gather(me, shard, node)
    gradient = await reduce_scatter(me, model.whole_gradient(weights, batch), node)
    gradient = await all_reduce(me, gradient, replicas)
    return shard - gradient / me.size * rate


def trial(nodes: int, size: int) -> Trial:
    """The weights of one process after a step, a shard on each rank of a node."""
    n, weights = nodes * size, join(MODEL.weights())
    batches = [MODEL.batch(f"rank {r}", 2) for r in range(n)]
    gradients = [MODEL.whole_gradient(weights, batch) for batch in batches]
    return Trial(
        f"{nodes} nodes of {size} ranks",
        Cluster((size,) * nodes, inside=INSIDE, between=BETWEEN),
        lambda me: [MODEL, weights.shards(size)[me.rank % size], batches[me.rank], RATE, size],
        lambda out: wrong(out.results, weights, gradients, size),
        most(n, size, len(weights)),
    )


def most(n: int, size: int, numbers: int) -> tuple[Budget, ...]:
    """Weights are gathered once and stay, so that a step sends 2 P inside a node."""
    sent = volumes.zero(
        parameters=numbers,
        data=n,
        stage=3,
        shard=size,
        keep_gathered=True,
        weight_bytes=NUMBER,
        gradient_bytes=NUMBER,
    )
    across = n * sent.amount("gradients, replicas")
    return (
        Budget("bytes sent", sent.total, "2 P (S-1)/S + 2 (P/S) (N/S - 1)/(N/S)"),
        Budget("bytes between nodes", across, "an all-reduce of a shard among its replicas"),
    )


def wrong(results: Sequence[Any], weights: Tensor, gradients: Sequence[Tensor], size: int) -> Any:
    """What is wrong with a rank's shard, by the gradient that it used."""

    def says(r: int, got: Any) -> str:
        before = weights.shards(size)[r % size]
        if getattr(got, "shape", ()) != before.shape:
            return f"returns {got!r}: expected its shard, a {before}"
        own = [g.shards(size)[r % size] for g in gradients]
        return sum_differs((before - got) * inverse(RATE), own, "gradient", r, mean=True)

    return each_rank(results, says)


PUZZLE = Puzzle(
    name="mics",
    title="MiCS: shards inside a node",
    chapter="mics",
    grade=3,
    task="""\
Where links between nodes are slow, weights are sharded over the ranks of a node only, so that
each node has all of them. Rank r has shard r % node_size of the weights, and a batch of its own.
Gather the weights inside the node, and reduce-scatter their gradient there. What is left to sum
is a shard's gradient over its replicas, one on each node. Return the new shard, weights - rate *
mean gradient over all ranks.""",
    hints=(
        "Two groups: the ranks of this node, and the ranks that have this shard.",
        "`await all_reduce(me, gradient, replicas)` comes after the reduce-scatter, on a shard.",
        "The mean is over all `me.size` ranks, not over those of a node.",
    ),
    sketch=sketch(
        4,
        lambda r: parts("weights", r % 2) + parts("activations", f"batch {r}"),
        lambda r: parts("weights", r % 2) + [of(0, 1, 2, 3)],
    ),
    trials=lambda: [trial(2, 2), trial(3, 2), trial(2, 3)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
