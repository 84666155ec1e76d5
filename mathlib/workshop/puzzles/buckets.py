"""Buckets that overlap with backward.  Two ranks, L layers, K bytes of gradients."""

from mathlib.schedule.cluster import Link
from mathlib.traffic import overlap
from mathlib.workshop import budgets
from mathlib.workshop.diagnosis import each_rank, joined, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER, Me
from mathlib.workshop.sketch import of, sketch
from mathlib.workshop.tensor import Tensor, join

LINK = Link(bandwidth=8.0, latency=1.0)
SECONDS = 4.0  # of a layer's backward


class Layers:
    """The gradients of a rank, which backward comes to one by one, the last layer first."""

    def __init__(self, me: Me, count: int, numbers: int):
        self.me, self.count, self.numbers = me, count, numbers

    def backward(self, layer: int) -> Tensor:
        """A layer's gradient; it takes its time."""
        self.me.compute(SECONDS)
        return gradient(self.me.rank, layer, self.numbers)


def gradient(rank: int, layer: int, numbers: int) -> Tensor:
    """Of a layer on a rank."""
    return drawn(f"gradient of layer {layer} on rank {rank}", numbers)


async def start(me, layers, bucket):
    other, own = 1 - me.rank, []
    for layer in reversed(range(layers.count)):
        own.insert(0, layers.backward(layer))
    await me.send(other, join(own))
    await me.receive(other)
    return own


async def solution(me, layers, bucket):
    other, own, waiting, sent = 1 - me.rank, {}, [], []
    for layer in reversed(range(layers.count)):
        own[layer] = layers.backward(layer)
        waiting.append(layer)
        if sum(len(own[i]) for i in waiting) >= bucket or layer == 0:
            await me.send(other, join([own[i] for i in waiting]))  # and go on computing
            sent.append(waiting)
            waiting = []
    for group in sent:
        arrived = await me.receive(other)
        for i, theirs in zip(group, arrived.shards(len(group)), strict=True):
            own[i] += theirs
    return [own[i] for i in range(layers.count)]


def trial(layers: int, numbers: int, bucket: int) -> Trial:
    """Every layer's gradient summed, in the time of backward and the last bucket behind it."""
    step = overlap.bucketed(
        layers=layers,
        ranks=2,
        backward=layers * SECONDS,
        payload=NUMBER * layers * numbers,
        bucket=NUMBER * bucket,
        **LINK._asdict(),
    )
    parts = [join([gradient(r, i, numbers) for i in range(layers)]) for r in range(2)]
    sent = budgets.sent("K, the gradient", "all-reduce", numbers=layers * numbers, ranks=2)
    seconds = "backward and the last bucket of an all-reduce behind it"
    return Trial(
        f"{layers} layers of {numbers} numbers, buckets of {bucket}",
        budgets.alone(2, LINK),
        lambda me: [Layers(me, layers, numbers), bucket],
        lambda out: each_rank(
            out.results, lambda r, x: sum_differs(joined(x), parts, "gradient", r)
        ),
        (sent, Budget("time", step.buckets[-1].end, seconds)),
    )


PUZZLE = Puzzle(
    name="buckets",
    title="Buckets that overlap with backward",
    chapter="data_parallel",
    grade=2,
    task="""\
Backward comes to the gradients one by one, the last layer first: `layers.backward(i)` takes 4 s.
Two ranks sum their gradients, and their link can carry a message while they compute. Every
message costs its sender one second before it leaves, so that a message for each layer is too
many and one for all layers comes too late. Send a bucket as soon as it holds `bucket` numbers,
and receive only when backward is through. Return the list of summed gradients, from layer 0 on.""",
    hints=(
        "`await me.send(...)` goes on at once, `await me.receive(...)` waits.",
        "Join gradients until they have `bucket` numbers or more, send them, and start anew.",
        "Note which layers went into which bucket: buckets arrive in the order of sending.",
    ),
    sketch=sketch(2, lambda r: [of(r)] * 4, lambda r: [of(0, 1)] * 4),
    trials=lambda: [trial(4, 2, 4), trial(6, 2, 6), trial(5, 2, 6), trial(3, 2, 4)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
