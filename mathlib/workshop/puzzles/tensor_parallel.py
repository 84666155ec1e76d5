"""A tensor-parallel MLP, forward and backward.  N ranks, s tokens of width h, inner width f."""

from collections.abc import Sequence
from typing import Any

from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import differs, each_rank, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor

NAMES = ("y", "dx", "dup", "ddown")


async def start(me, x, up, down, dy):
    inner = x @ up.T
    y = (inner * inner) @ down
    dinner = (dy @ down.T) * inner * 2
    ddown = (inner * inner).T @ dy
    dup = dinner.T @ x
    dx = dinner @ up
    return y, dx, dup, ddown


async def solution(me, x, up, down, dy):
    inner = x @ up.T
    y = await all_reduce(me, (inner * inner) @ down)
    dinner = (dy @ down.T) * inner * 2
    ddown = (inner * inner).T @ dy
    dup = dinner.T @ x
    dx = await all_reduce(me, dinner @ up)
    return y, dx, dup, ddown


def one(x: Tensor, up: Tensor, down: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    """What a process computes that has these rows of both matrices."""
    inner = x @ up.T
    dinner = (dy @ down.T) * inner * 2
    return (inner * inner) @ down, dinner @ up, dinner.T @ x, (inner * inner).T @ dy


def trial(n: int, tokens: int, width: int, inner: int) -> Trial:
    """The activations and gradients of one process."""
    x, dy = drawn("x", tokens, width), drawn("dy", tokens, width)
    up, down = drawn("up", inner, width), drawn("down", inner, width)
    parts = [one(x, *both, dy) for both in zip(up.shards(n), down.shards(n), strict=True)]
    twice = 2 * budgets.sent("", "all-reduce", numbers=tokens * width, ranks=n).most
    return Trial(
        f"{n} ranks, inner width {inner}",
        budgets.alone(n),
        lambda me: [x[:], up.shards(n)[me.rank], down.shards(n)[me.rank], dy[:]],
        lambda out: each_rank(out.results, lambda r, got: wrong(r, got, parts)),
        (Budget("bytes sent", twice, "an all-reduce of s h forward, one backward"),),
    )


def wrong(rank: int, got: Any, parts: Sequence[Sequence[Tensor]]) -> str:
    """y and dx are sums over ranks, the gradients of weights a rank's own."""
    if not isinstance(got, (tuple, list)) or len(got) != len(NAMES):
        return f"returns {got!r}: expected {', '.join(NAMES)}"
    for i, name in enumerate(NAMES):
        own = [part[i] for part in parts]
        said = sum_differs(got[i], own, "part", rank) if i < 2 else differs(got[i], own[rank])
        if said:
            return f"{said}, in {name}"
    return ""


PUZZLE = Puzzle(
    name="tensor-parallel",
    title="A tensor-parallel MLP",
    chapter="tensor",
    grade=1,
    task="""\
An MLP is y = (x U^T)^2 D, squared number by number, and each rank has some rows of U and of D.
Every rank has the whole input x and, on the way back, the whole gradient dy of the output. With
its rows a rank computes a part of y and a part of dx, and the whole gradients of its own rows.
The start computes all of that for one rank alone. Add what has to be summed over ranks, once
forward and once backward, and return y, dx, dup and ddown.""",
    hints=(
        "Splitting the inner width makes y a sum over ranks, of terms that each rank has.",
        "x goes into every rank's rows, so that its gradient is a sum over ranks, too.",
        "The gradients of U and D need no communication: who has a row, has its gradient.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("activations", "x", "dy") + parts("weights", f"U{r}", f"D{r}"),
        lambda r: [of(0, 1, 2)] * 2 + parts("gradients", f"dU{r}", f"dD{r}"),
    ),
    trials=lambda: [trial(2, 3, 2, 4), trial(3, 3, 4, 7), trial(4, 2, 4, 4)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
