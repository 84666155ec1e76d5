"""Ranks that do not do the same in the same order.  N ranks."""

from collections.abc import Iterator, Sequence
from typing import Any

from mathlib.workshop.budgets import alone
from mathlib.workshop.case import case, compared
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import differs, each_rank, joined, total
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.ranks import Me, Outcome
from mathlib.workshop.sketch import fault, parts
from mathlib.workshop.tensor import join, zeros


async def left_the_barrier(me, weights, barrier):
    saved = None
    if me.rank > 0:
        return saved
    saved = weights[:]
    await barrier(me)
    return saved


async def barrier(me: Me) -> None:
    """Nobody goes on before all are here."""
    await all_reduce(me, zeros(me.size))


def saving(n: int) -> Trial:
    """Rank 0 has the weights, and all have waited for each other."""
    weights = drawn("weights", 6)

    def wrong(out: Outcome) -> Iterator[str]:
        said = differs(out.results[0], weights)
        if said:
            yield f"rank 0 {said}"
        for rank, got in enumerate(out.results):
            if rank and got is not None:
                yield f"rank {rank} saves, too: expected None"
        for rank, sent in enumerate(out.run.messages):
            if not sent:
                yield f"rank {rank} does not come to the barrier"

    return Trial(f"{n} ranks", alone(n), lambda me: [weights[:], barrier], wrong)


async def own_clock(me, gradients, seconds, limit):
    summed, clock, step, on = zeros(len(gradients[0])), 0, 0, True
    while on:
        summed += await all_reduce(me, gradients[step])
        clock += seconds[step]
        step += 1
        on = clock < limit
    return summed


def timed(*seconds: Sequence[int]) -> Trial:
    """Each rank's seconds of every step; rank 0 decides, at 10 s."""
    n, steps = len(seconds), len(seconds[0])
    gradients = [[drawn(f"rank {r}, step {s}", 6) for s in range(steps)] for r in range(n)]
    took = next(s + 1 for s in range(steps) if sum(seconds[0][: s + 1]) >= 10)
    summed = total([total(row[:took]) for row in gradients])
    said = " | ".join(" ".join(map(str, row)) for row in seconds)
    return compared(
        f"{n} ranks, steps of {said} s",
        lambda me: [gradients[me.rank], seconds[me.rank], 10],
        [summed] * n,
    )


async def no_tokens(me, parts, expert):
    others = [r for r in range(me.size) if r != me.rank]
    for r in others:
        await me.send(r, parts[r])
    for r in others:
        came = await me.receive(r)
        if len(came):
            await me.send(r, expert(came))
    back = [expert(parts[r]) if r == me.rank else await me.receive(r) for r in range(me.size)]
    return join(back)


def dispatching(*counts: Sequence[int]) -> Trial:
    """Tokens [from][to]; every expert doubles."""
    n = len(counts)
    parts = [
        [drawn(f"{r} to {to}", max(count, 1), 2)[:count] for to, count in enumerate(row)]
        for r, row in enumerate(counts)
    ]
    said = " | ".join(" ".join(map(str, row)) for row in counts)
    return compared(
        f"{n} ranks, {said} tokens for the experts",
        lambda me: [[part[:] for part in parts[me.rank]], lambda x: x * 2],
        [join(row) * 2 for row in parts],
    )


async def order_of_its_own(me, gradients, ready):
    summed = {}
    for layer in ready:
        summed[layer] = await all_reduce(me, gradients[layer])
    return [summed[layer] for layer in range(len(gradients))]


def buckets(*ready: Sequence[int]) -> Trial:
    """The order in which each rank has its layers' gradients."""
    n, layers = len(ready), len(ready[0])
    gradients = [[drawn(f"rank {r}, layer {i}", 4) for i in range(layers)] for r in range(n)]
    sums = [total([row[i] for row in gradients]) for i in range(layers)]
    calls = [
        total([row[order[k]] for row, order in zip(gradients, ready, strict=True)])
        for k in range(layers)
    ]

    def wrong(rank: int, got: Any) -> str:
        mixed = join([calls[ready[rank].index(i)] for i in range(layers)])
        return differs(joined(got), join(sums), {"has sums of different layers": mixed})

    said = " | ".join(" ".join(map(str, row)) for row in ready)
    return Trial(
        f"{n} ranks, layers ready in the order {said}",
        alone(n),
        lambda me: [gradients[me.rank], list(ready[me.rank])],
        lambda out: each_rank(out.results, wrong),
    )


CASES = [
    case(
        left_the_barrier,
        title="It saves, and then nothing happens",
        chapter="collectives",
        thread="EleutherAI/sparsify#5",
        task="""\
Training hangs after a checkpoint: its files are all there, but the next step never comes. Rank 0
saves the weights, which here means to return a copy; other ranks return None. Nobody may go on
before the file is written: `await barrier(me)` waits until all ranks are there.""",
        hints=(
            "Which ranks come to the barrier?",
            "Ranks that save nothing leave the function before it; rank 0 waits for them.",
            "Only saving depends on the rank: `if me.rank == 0:` around it, the barrier for all.",
        ),
        edit=(
            "    if me.rank > 0:\n        return saved\n    saved = weights[:]\n",
            "    if me.rank == 0:\n        saved = weights[:]\n",
        ),
        sketch=fault(
            3,
            lambda r: (parts("weights", "file") + parts("communication", "barrier"))[3 * r :],
            lambda r: parts("weights", "file")[r:] + parts("communication", "barrier"),
        ),
        trials=lambda: [saving(2), saving(4)],
    ),
    case(
        own_clock,
        title="It freezes at the end, at times",
        chapter="data_parallel",
        thread="pytorch/pytorch#22834",
        task="""\
A benchmark with DDP stops once a minimum of seconds is over, and at times it freezes. `seconds`
are what a rank measures of its own steps, and ranks never measure the same. All ranks must stop
after the step in which rank 0's clock reaches the limit. Return the sum of the gradients of all
steps and ranks.""",
        hints=(
            "After how many steps does each rank leave the loop?",
            "Each follows its own clock: one leaves, and the others wait in their next all-reduce.",
            "Rank 0 decides, and an all-reduce of a 0 or 1 tells the others.",
        ),
        edit=(
            "        on = clock < limit\n",
            "        go_on = vector([int(me.rank == 0 and clock < limit)])\n"
            "        on = (await all_reduce(me, go_on)).item() > 0\n",
        ),
        sketch=fault(
            2,
            lambda r: parts("forward", *range(3 + r)),
            lambda r: parts("forward", *range(3)),
        ),
        trials=lambda: [
            timed([4, 4, 4, 4], [3, 3, 3, 3]),
            timed([5, 5, 5, 5], [4, 4, 4, 4]),
            timed([3, 3, 3, 3], [4, 4, 4, 4], [9, 9, 9, 9]),
        ],
    ),
    case(
        no_tokens,
        title="A rank without tokens",
        chapter="experts",
        thread="PaddlePaddle/PaddleFormers#3010",
        task="""\
Training with expert parallelism runs into a timeout as soon as a rank gets no tokens. Each rank has
`parts[r]`, its tokens for the expert of rank r, some of them empty. It sends them, answers those
that came with `expert(tokens)`, and returns the results joined in the order of the ranks.""",
        hints=(
            "Who waits for an answer, and who gives one?",
            "A rank does not answer an empty message, but its sender waits for the answer.",
            "Answer always: an expert takes a tensor without rows, too.",
        ),
        edit=("        if len(came):\n            await me", "        await me"),
        sketch=fault(
            2,
            lambda r: parts("mlp", *((0, 1), ("", 1))[r])[r:] + parts("idle", *["waits"][:r]),
            lambda r: parts("mlp", 0, 1),
        ),
        trials=lambda: [dispatching([1, 2], [0, 1]), dispatching([1, 1, 0], [2, 0, 1], [1, 1, 1])],
    ),
    case(
        order_of_its_own,
        title="Gradients of two layers, added up",
        chapter="collectives",
        thread="deepspeedai/DeepSpeed#2343",
        task="""\
ZeRO stage 2 ends with wrong gradients where ranks come to their layers in another order. Nothing
stops and nothing is said, since the layers are of one size. `ready` is the order in which a rank
has its gradients. Return the list of all layers' gradients, each summed over ranks.""",
        hints=(
            "What does rank 0 sum first, and what does rank 1?",
            "A collective has no name: the first call of one rank meets the first of the others.",
            "One order for all ranks: `for layer in sorted(ready)`.",
        ),
        edit=("for layer in ready:", "for layer in sorted(ready):"),
        sketch=fault(
            2,
            lambda r: parts("gradients", *((2, 1, 0), (2, 0, 1))[r]),
            lambda r: parts("gradients", 0, 1, 2),
        ),
        trials=lambda: [buckets([2, 1, 0], [2, 0, 1]), buckets([0, 1], [1, 0], [0, 1])],
    ),
]
