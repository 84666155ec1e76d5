"""Reverse-mode automatic differentiation: what torch.autograd does, on lists of lists.

A value remembers its parents, and for each a pull: from G = dL/dvalue to the parent's share (Baydin
et al. 2018, 3.2).
Y = A B is one product; its pulls dL/dA = G B^T and dL/dB = A^T G are two. `made` and `pulled` count
multiplications.
"""

import math
from collections.abc import Callable
from operator import add, mul

from mathlib.checks import InputError

Rows = list[list[float]]
Pull = Callable[[Rows], tuple[Rows, int]]  # a gradient -> the parent's share, multiplications


def each(f: Callable[..., float], *operands: Rows) -> Rows:
    """f, entry by entry, of matrices of one shape.

    Chapter: autograd
    """
    shapes = {(len(a), len(a[0])) for a in operands}
    if len(shapes) > 1:
        raise InputError(f"shapes {sorted(shapes)}: expected the same")
    rows_of_all = zip(*operands, strict=True)
    return [[f(*entries) for entries in zip(*rows, strict=True)] for rows in rows_of_all]


def turned(a: Rows) -> Rows:
    """The transpose.

    Chapter: autograd
    """
    return [list(column) for column in zip(*a, strict=True)]


def hadamard(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The entrywise product of two m x n matrices, and its m n multiplications.

    Chapter: autograd
    """
    return each(mul, a, b), len(a) * len(a[0])


def product(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The product of an m x k and a k x n matrix, and its m k n multiplications.

    Chapter: autograd (eq-pulls)
    """
    if len(a[0]) != len(b):
        raise InputError(
            f"shapes {(len(a), len(a[0]))} @ {(len(b), len(b[0]))}: expected (m, k) @ (k, n)"
        )
    rows = [[sum(map(mul, row, column)) for column in turned(b)] for row in a]
    return rows, len(a) * len(b) * len(b[0])


class Value:
    """A matrix in a graph (a number is one of shape 1 x 1).

    Leaves keep `grad`, and every backward() adds to it.

    Chapter: autograd (eq-chain)
    """

    def __init__(self, rows: Rows | float, needs_grad: bool = True, by: str = "", made: int = 0):
        self.rows = rows if isinstance(rows, list) else [[rows]]
        self.by = by  # the operation; empty for a leaf
        self.made, self.pulled = made, 0  # multiplications, forward and backward
        self.needs_grad = needs_grad if not by else False
        self.pulls: list[tuple[Value, Pull]] = []
        self.grad: Rows | None = None

    def passes_to(self, parent: "Value", pull: Pull) -> None:
        """Say how a gradient that arrives here becomes the parent's share of it."""
        self.pulls.append((parent, pull))
        self.needs_grad = self.needs_grad or parent.needs_grad

    def __matmul__(self, b: "Value") -> "Value":
        rows, made = product(self.rows, b.rows)
        out = Value(rows, by="@", made=made)
        out.passes_to(self, lambda g: product(g, turned(b.rows)))
        out.passes_to(b, lambda g: product(turned(self.rows), g))
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
        out.passes_to(self, lambda g: ([[g[0][0] for _ in row] for row in self.rows], 0))
        return out

    def exp(self) -> "Value":
        rows = each(math.exp, self.rows)
        return self._entrywise("exp", rows, slopes=rows)

    def relu(self) -> "Value":
        rows = each(lambda x: max(x, 0.0), self.rows)
        return self._entrywise("relu", rows, slopes=each(lambda x: float(x > 0), self.rows))

    def _entrywise(self, by: str, rows: Rows, slopes: Rows) -> "Value":
        out = Value(rows, by=by)
        out.passes_to(self, lambda g: hadamard(g, slopes))
        return out

    def graph(self) -> list["Value"]:
        """All that this value was made from, parents before children, itself last."""
        order: dict[Value, None] = {}
        stack = [self]
        while stack:  # not recursive: graphs get deeper than Python's stack
            waiting = [parent for parent, _ in stack[-1].pulls if parent not in order]
            if waiting:
                stack += waiting
            else:
                order[stack.pop()] = None
        return list(order)

    def backward(self) -> dict["Value", Rows]:
        """Add dL/dleaf to the `grad` of every leaf that needs one, this value being L;
        return what arrived where.
        """
        if [len(row) for row in self.rows] != [1]:
            raise InputError(f"backward from {self.rows}: expected a loss, a single number")
        arrived: dict[Value, Rows] = {self: [[1.0]]}
        for value in reversed(self.graph()):
            if value not in arrived:
                continue
            g = arrived[value]
            if not value.pulls:
                value.grad = each(add, value.grad, g) if value.grad else g
            for parent, pull in value.pulls:
                if parent.needs_grad:
                    share, multiplications = pull(g)
                    value.pulled += multiplications
                    here = arrived.get(parent)
                    arrived[parent] = each(add, here, share) if here else share
        return arrived
