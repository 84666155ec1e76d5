"""Ring attention, linear so that it is exact.  N ranks, s tokens of width h."""

from collections.abc import Callable

from mathlib.schedule.cluster import Cluster, Link
from mathlib.workshop.diagnosis import each_rank, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER, Me
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor

WIDTH = 2


async def start(me, q, k, v, attend):
    return attend(q, k, v)


async def solution(me, q, k, v, attend):
    right, left = (me.rank + 1) % me.size, (me.rank - 1) % me.size
    y = None
    for step in range(me.size):
        last = step == me.size - 1
        if not last:
            await me.send(right, [k, v])  # travels while this rank computes
        part = attend(q, k, v)
        y = part if y is None else y + part
        if not last:
            k, v = await me.receive(left)
    return y


def attend_for(me: Me) -> Callable[..., Tensor]:
    """(q k^T) v of a block; a second for every 16 pairs of a query and a key."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        me.compute(len(q) * len(k) / 16)
        return (q @ k.T) @ v

    return attend


def trial(n: int, own: int) -> Trial:
    """Each rank's queries meet all keys and values."""
    q, k, v = (
        [drawn(f"{name} of rank {r}", own, WIDTH) for r in range(n)] for name in ("q", "k", "v")
    )
    parts = [[(q[r] @ k[o].T) @ v[o] for o in range(n)] for r in range(n)]
    message = NUMBER * 2 * own * WIDTH
    link = Link(bandwidth=message / (own * own / 16))  # a block travels as long as it is computed
    return Trial(
        f"{n} ranks of {own} tokens",
        Cluster((1,) * n, between=link),
        lambda me: [q[me.rank][:], k[me.rank][:], v[me.rank][:], attend_for(me)],
        lambda out: each_rank(out.results, lambda r, x: sum_differs(x, parts[r], "block", r)),
        most(n, own, own * own / 16),
    )


def most(n: int, own: int, block: float) -> tuple[Budget, ...]:
    """A block of keys and values a message, and no more than a few at a time."""
    held = own * WIDTH
    return (
        Budget("bytes sent", NUMBER * 2 * held * (n - 1), "2 s h (N-1)/N numbers"),
        Budget("time", n * block, "N blocks, the messages hidden behind them"),
        Budget(
            "live numbers", 8 * held + own * own, "eight matrices of a block and a block's scores"
        ),
    )


PUZZLE = Puzzle(
    name="ring-attention",
    title="Ring attention",
    chapter="sequences",
    grade=2,
    task="""\
Each rank has the queries, keys and values of its own tokens. Its queries have to meet the keys and
values of all ranks, which never are in one place. `attend(q, k, v)` is the part of the result that
one block of keys and values gives; it is linear attention, so that parts simply add up, and it
takes its time. Let the blocks travel round a ring, each sent on before it is computed with, so that
messages hide. Return the sum of all parts for this rank's queries, every block once.""",
    hints=(
        "N - 1 times: send the block on, attend, receive the next one. The last block stays.",
        "Send before `attend`, receive after it: a message travels while both ranks compute.",
        "Send keys and values as one message: `await me.send(right, [k, v])`.",
    ),
    sketch=sketch(
        4,
        lambda r: parts("activations", f"q{r}") + parts("cache", f"k{r}", f"v{r}"),
        lambda r: parts("activations", f"q{r}") + [of(0, 1, 2, 3)],
    ),
    trials=lambda: [trial(4, 4), trial(3, 4), trial(2, 8)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
