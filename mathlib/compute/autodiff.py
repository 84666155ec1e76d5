"""Reverse-mode automatic differentiation: what torch.autograd does, on lists of lists.

A value remembers its parents, and for each a VJP: from G = dloss/dvalue to its share (Baydin
et al. 2018, 3.2). What was made last is visited first, and a leaf when its last share is there.
Y = A B is one matmul; its VJPs G_A = G_Y B^T and G_B = A^T G_Y are two. `made` and `made_back`
count multiplications.
"""

import math
from collections.abc import Callable
from itertools import count
from operator import add, attrgetter, mul

from mathlib.checks import InputError

Rows = list[list[float]]
Arrived = dict["Value", Rows]  # gradients that have come, by where
VJP = Callable[[Rows], tuple[Rows, int]]  # a gradient -> the parent's share, multiplications
NUMBERS = count(1)  # of results, in the order in which they are made


def shape(a: Rows) -> tuple[int, int]:
    """Rows and columns.

    Chapter: autograd
    """
    return len(a), len(a[0])


def transposed(a: Rows) -> Rows:
    """The transpose.

    Chapter: autograd
    """
    return [list(column) for column in zip(*a, strict=True)]


def each(f: Callable[..., float], *operands: Rows) -> Rows:
    """f, entry by entry, of matrices of one shape.

    Chapter: autograd
    """
    shapes = {shape(a) for a in operands}
    if len(shapes) > 1:
        wrong = f"shapes {sorted(shapes)}: expected the same"
        raise InputError(wrong)
    together = zip(*operands, strict=True)
    return [list(map(f, *rows)) for rows in together]


def hadamard(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The entrywise product of two m x n matrices, and its m n multiplications.

    Chapter: autograd
    """
    return each(mul, a, b), len(a) * len(a[0])


def matmul(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The product of an m x k and a k x n matrix, and its m k n multiplications.

    Chapter: autograd (eq-pulls)
    """
    (m, k), (inner, n) = shape(a), shape(b)
    if k != inner:
        raise InputError(f"shapes {shape(a)} @ {shape(b)}: expected (m, k) @ (k, n)")
    rows = [[sum(map(mul, row, column)) for column in transposed(b)] for row in a]
    return rows, m * k * n


def added(before: Rows | None, more: Rows) -> Rows:
    """What was there, and more.

    Chapter: autograd (eq-chain)
    """
    return each(add, before, more) if before else more


def one(loss: Rows) -> Rows:
    """The slope of the loss by itself: 1, for a single number.

    Chapter: autograd
    """
    if shape(loss) != (1, 1):
        wrong = "expected a loss, a single number"
        raise InputError(f"backward from {loss}: {wrong}")
    return [[1.0]]


class Value:
    """A matrix in a graph (a number is one of shape 1 x 1).

    Leaves keep `grad`, and every backward() adds to it.

    Chapter: autograd (eq-chain)
    """

    def __init__(
        self,
        rows: Rows | float,
        needs_grad: bool = True,
        by: str = "",
        made: int = 0,
    ):
        self.rows = rows if isinstance(rows, list) else [[rows]]
        self.by = by  # the operation; none made a leaf
        self.number = next(NUMBERS) if by else math.inf
        self.made = made  # multiplications of forward
        self.made_back = 0  # and those of backward
        self.needs_grad = needs_grad and not by
        self.vjps: list[tuple[Value, VJP]] = []
        self.grad: Rows | None = None

    def passes_to(self, parent: "Value", vjp: VJP) -> None:
        """Say how a parent gets its share of a gradient."""
        self.vjps.append((parent, vjp))
        self.needs_grad = self.needs_grad or parent.needs_grad

    def __matmul__(self, b: "Value") -> "Value":
        rows, made = matmul(self.rows, b.rows)
        out = Value(rows, by="@", made=made)
        out.passes_to(
            self,
            lambda g: matmul(g, transposed(b.rows)),
        )
        out.passes_to(
            b,
            lambda g: matmul(transposed(self.rows), g),
        )
        return out

    def __mul__(self, b: "Value") -> "Value":
        rows, made = hadamard(self.rows, b.rows)
        out = Value(rows, by="*", made=made)
        out.passes_to(self, lambda g: hadamard(g, b.rows))
        out.passes_to(b, lambda g: hadamard(g, self.rows))
        return out

    def __add__(self, b: "Value") -> "Value":
        out = Value(each(add, self.rows, b.rows), by="+")
        out.passes_to(self, lambda g: (g, 0))
        out.passes_to(b, lambda g: (g, 0))
        return out

    def sum(self) -> "Value":
        out = Value(sum(map(sum, self.rows)), by="sum")
        out.passes_to(
            self,
            lambda g: (each(lambda _: g[0][0], self.rows), 0),
        )
        return out

    def exp(self) -> "Value":
        rows = each(math.exp, self.rows)
        out = Value(rows, by="exp")
        out.passes_to(self, lambda g: hadamard(g, rows))
        return out

    def relu(self) -> "Value":
        rows = each(lambda x: max(x, 0.0), self.rows)
        slopes = each(lambda x: float(x > 0), self.rows)
        out = Value(rows, by="relu")
        out.passes_to(self, lambda g: hadamard(g, slopes))
        return out

    def graph(self) -> list["Value"]:
        """As they were made, a leaf just before its first use."""
        found, todo = {self}, [self]
        while todo:
            parents = {p for p, _ in todo.pop().vjps}
            todo += parents - found
            found |= parents
        order: dict[Value, None] = {}  # keeps what enters in order
        for value in sorted(found, key=attrgetter("number")):
            used = [p for p, _ in reversed(value.vjps)]
            order |= dict.fromkeys([*used, value])
        return list(order)

    def backward(self, start: Rows | None = None) -> Arrived:
        """Add to `grad` of the leaves; return what arrived."""
        arrived = {self: start or one(self.rows)}
        for value in reversed(self.graph()):
            if value in arrived:
                value.hand_down(arrived)
        return arrived

    def hand_down(self, arrived: Arrived) -> None:
        """Keep a gradient, or give parents their shares."""
        g = arrived[self]
        if not self.vjps:
            self.grad = added(self.grad, g)
        for parent, vjp in self.vjps:
            if parent.needs_grad:
                share, count = vjp(g)
                self.made_back += count
                arrived[parent] = added(arrived.get(parent), share)


def multiplications(*values: Value) -> int:
    """All that forward and backward of these values took.

    Chapter: autograd (eq-cheap)
    """
    return sum(value.made + value.made_back for value in values)


def recomputed(f: Callable[[Value], Value], x: Value) -> Value:
    """f(x), of which only x is kept (Chen et al. 2016).

    Chapter: autograd (eq-recomputed)
    """

    def vjp(g: Rows) -> tuple[Rows, int]:
        again = Value(x.rows)
        out = f(again)
        arrived = out.backward(g)
        return arrived[again], multiplications(*out.graph())

    first = f(Value(x.rows))
    made = multiplications(*first.graph())
    out = Value(first.rows, by="recomputed", made=made)
    out.passes_to(x, vjp)
    return out
