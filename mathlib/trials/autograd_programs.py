"""Programs put together at random, run by our engine and by PyTorch: do both find the same
gradients, and visit the values in the same order?

A program has four leaves, the first of them data, what twelve operations make of them, and a loss
that adds up the entries of all these values, so that every operation counts.
"""

import math
import operator
import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from mathlib.checks import InputError
from mathlib.compute.autodiff import Rows, Value, shape

Result = tuple[list[Tensor | None], list[int]]  # gradients of the leaves, and who was visited


def relu(a: Any, _: Any) -> Any:
    return a.relu()


def exp(a: Any, _: Any) -> Any:
    return a.exp()


OPERATIONS = [operator.matmul, operator.mul, operator.add, relu, exp]


def random_program(
    seed: int,
    matrix: Callable[[Rows, bool], Any],
    tall: int = 2,
) -> list[Any]:
    """Four leaves, the first of them data, what is made from them, and the loss."""
    draw, values = random.Random(seed), []
    for i, (m, n) in enumerate([(tall, 3), (3, tall), (tall, 3), (3, tall)]):
        rows = [[draw.uniform(-1, 1) for _ in range(n)] for _ in range(m)]
        values.append(matrix(rows, i > 0))
    for _ in range(12):
        step = draw.choice(OPERATIONS)
        pairs = [(a, b) for a in values for b in values if fits(step, a, b)]
        values.append(step(*draw.choice(pairs)))
    loss = reduce(operator.add, [value.sum() for value in values])
    return [*values, loss]


def fits(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """Whether the shapes allow it; an exponential is taken of numbers below 1 only, lest a tower of
    them overflow.
    """
    rows, others = (v.rows if isinstance(v, Value) else v.tolist() for v in (a, b))
    (m, k), (inner, n) = shape(rows), shape(others)
    if operation is operator.matmul:
        return k == inner
    return (m, k) == (inner, n) and (operation is not exp or max(map(max, rows)) < 1)


def with_torch(seed: int, tall: int = 2) -> Result:
    def matrix(rows: Rows, wants: bool) -> Tensor:
        return torch.tensor(rows, dtype=torch.float64, requires_grad=wants)

    values, seen = random_program(seed, matrix, tall), []
    for i, value in enumerate(values):
        if value.requires_grad:
            value.register_hook(lambda _, i=i: seen.append(i))
    values[-1].backward()
    return [leaf.grad for leaf in values[:4]], seen


def with_engine(seed: int, tall: int = 2) -> Result:
    values = random_program(seed, lambda rows, wants: Value(rows, needs_grad=wants), tall)
    arrived = values[-1].backward()
    place = {value: i for i, value in enumerate(values)}
    seen = [place[v] for v in reversed(values[-1].graph()) if v in arrived and v in place]
    gradients = [leaf.grad for leaf in values[:4]]
    return [g if g is None else torch.tensor(g, dtype=torch.float64) for g in gradients], seen


def apart(ours: Tensor | None, theirs: Tensor | None) -> float:
    """The largest difference of two gradients, over the largest entry; infinite where only one is
    there, or their shapes differ.
    """
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if ours.shape != theirs.shape:
        return math.inf
    return (ours - theirs).abs().max().item() / (theirs.abs().max().item() or 1.0)


def disagreements(right: Sequence[Result], tall: int = 2) -> list[int]:
    """Programs, by their place, whose gradients are not those in `right`, whose order is not, and
    which our engine stops because shapes do not fit. All are of matrices as `tall` as those.
    """
    wrong, other, stopped = 0, 0, 0
    for seed, (gradients, order) in enumerate(right):
        try:
            ours, seen = with_engine(seed, tall)
        except InputError:
            stopped += 1
            continue
        far = max(apart(a, b) for a, b in zip(ours, gradients, strict=True))
        wrong, other = wrong + (far > 1e-12), other + (seen != order)
    return [wrong, other, stopped]
