"""Sequence parallelism around a tensor-parallel MLP.  N ranks, s tokens of width h."""

from collections.abc import Sequence
from typing import Any

from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_gather, all_reduce, reduce_scatter
from mathlib.workshop.diagnosis import differs, each_rank, sum_differs, total
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.tensor import Tensor

NAMES = ("y", "dx", "dscale", "dup", "ddown")


async def start(me, x, scale, up, down, dy):
    whole = await all_gather(me, x * scale)
    inner = whole @ up.T
    y = await reduce_scatter(me, (inner * inner) @ down)
    dinner = (dy @ down.T) * inner[: len(dy)] * 2
    ddown = (inner * inner)[: len(dy)].T @ dy
    dup = dinner.T @ (x * scale)
    dnormed = dinner @ up
    return y, dnormed * scale, (dnormed * x).sum(), dup, ddown


async def solution(me, x, scale, up, down, dy):
    whole = await all_gather(me, x * scale)
    inner = whole @ up.T
    y = await reduce_scatter(me, (inner * inner) @ down)
    dy = await all_gather(me, dy)
    dinner = (dy @ down.T) * inner * 2
    ddown = (inner * inner).T @ dy
    dup = dinner.T @ whole
    dnormed = await reduce_scatter(me, dinner @ up)
    dscale = await all_reduce(me, (dnormed * x).sum())
    return y, dnormed * scale, dscale, dup, ddown


def one(x: Tensor, scale: Tensor, up: Tensor, down: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    """What a process computes that has all tokens, and these rows of both matrices."""
    inner = (x * scale) @ up.T
    dinner = (dy @ down.T) * inner * 2
    dnormed = dinner @ up
    y = (inner * inner) @ down
    return y, dnormed * scale, dnormed * x, dinner.T @ (x * scale), (inner * inner).T @ dy


def trial(n: int, tokens: int, width: int, inner: int) -> Trial:
    """The activations and gradients of one process, a rank's tokens of each."""
    x, dy = drawn("x", tokens, width), drawn("dy", tokens, width)
    scale, up, down = drawn("scale", width), drawn("up", inner, width), drawn("down", inner, width)
    parts = [one(x, scale, *both, dy) for both in zip(up.shards(n), down.shards(n), strict=True)]
    each = budgets.sent("", "all-gather", numbers=tokens * width, ranks=n).most
    last = budgets.sent("", "all-reduce", numbers=width, ranks=n).most
    return Trial(
        f"{n} ranks, {tokens} tokens",
        budgets.alone(n),
        lambda me: [
            part.shards(n)[me.rank] if len(part.shape) == 2 else part[:]
            for part in (x, scale, up, down, dy)
        ],
        lambda out: each_rank(out.results, lambda r, got: wrong(r, got, parts)),
        (Budget("bytes sent", 4 * each + last, "s h (N-1)/N four times, and an all-reduce of h"),),
    )


def wrong(rank: int, got: Any, parts: Sequence[Sequence[Tensor]]) -> str:
    """y and dx are a rank's tokens, dscale is of all tokens, dup and ddown of a rank's rows."""
    if not isinstance(got, (tuple, list)) or len(got) != len(NAMES):
        return f"returns {got!r}: expected {', '.join(NAMES)}"
    for i, name in enumerate(NAMES):
        terms = [part[i].shards(len(parts))[rank] for part in parts]  # of each rank's rows
        if name == "dscale":  # of each rank's tokens
            terms = [
                tokens.sum() for tokens in total([part[i] for part in parts]).shards(len(parts))
            ]
        rows = name in ("dup", "ddown")
        said = differs(got[i], parts[rank][i]) if rows else sum_differs(got[i], terms, "part", rank)
        if said:
            return f"{said}, in {name}"
    return ""


PUZZLE = Puzzle(
    name="sequence-parallel",
    title="Sequence parallelism",
    chapter="tensor",
    grade=2,
    task="""\
Before an MLP whose rows are split over ranks stands a norm, here a learned scale of each column,
and every rank has the same scale. To save activations each rank has some tokens of x and dy
only: what a rank returns as y and dx is of its tokens. Forward is done: an all-gather before the
MLP, and a reduce-scatter behind it. Backward takes the opposite way, and the start forgets it.
Return y, dx, dscale, dup and ddown, as one process would have them.""",
    hints=(
        "The way back of a reduce-scatter is an all-gather, and the other way round.",
        "dy has to be gathered before it meets the inner activations of all tokens.",
        "A rank's tokens give it a part of dscale only: the scale is everybody's, so sum it.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("activations", f"x{r}", f"dy{r}") + parts("weights", f"U{r}", f"D{r}"),
        lambda r: [
            of(0, 1, 2),
            *parts("activations", f"y{r}", f"dx{r}"),
            *parts("gradients", f"dU{r}", f"dD{r}"),
        ],
    ),
    trials=lambda: [trial(2, 4, 2, 4), trial(3, 6, 4, 6), trial(4, 8, 4, 4)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
