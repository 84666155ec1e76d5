"""Reverse-mode automatic differentiation: what torch.autograd does, on lists of lists, in under a
hundred lines.

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


def each(f: Callable[..., float], *operands: Rows) -> Rows:
    """f, entry by entry, of matrices of one shape."""
    if len(shapes := {(len(a), len(a[0])) for a in operands}) > 1:
        raise InputError(f"shapes {sorted(shapes)}: expected the same")
    return [
        [f(*entries) for entries in zip(*rows, strict=True)] for rows in zip(*operands, strict=True)
    ]


def turned(a: Rows) -> Rows:
    return [list(column) for column in zip(*a, strict=True)]


def hadamard(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The entrywise product of two m x n matrices, and its m n multiplications."""
    return each(mul, a, b), len(a) * len(a[0])


def product(a: Rows, b: Rows) -> tuple[Rows, int]:
    """The product of an m x k and a k x n matrix, and its m k n multiplications."""
    if len(a[0]) != len(b):
        raise InputError(
            f"shapes {(len(a), len(a[0]))} @ {(len(b), len(b[0]))}: expected (m, k) @ (k, n)"
        )
    return [[sum(map(mul, row, column)) for column in turned(b)] for row in a], len(a) * len(
        b
    ) * len(b[0])


class Value:
    """A matrix in a graph (a number is one of shape 1 x 1). Leaves keep `grad`, and every
    backward() adds to it.
    """

    def __init__(
        self,
        rows: Rows | float,
        needs_grad: bool = True,
        *,
        by: str = "",
        made: int = 0,
        pulls: tuple = (),
    ):
        self.rows = rows if isinstance(rows, list) else [[rows]]
        self.by, self.made, self.pulled, self.pulls = by, made, 0, pulls
        self.needs_grad = any(parent.needs_grad for parent, _ in pulls) if pulls else needs_grad
        self.grad: Rows | None = None

    def __matmul__(self, b: "Value") -> "Value":
        rows, made = product(self.rows, b.rows)
        pulls = (
            (self, lambda g: product(g, turned(b.rows))),
            (b, lambda g: product(turned(self.rows), g)),
        )
        return Value(rows, by="@", made=made, pulls=pulls)

    def __mul__(self, b: "Value") -> "Value":
        rows, made = hadamard(self.rows, b.rows)
        pulls = (self, lambda g: hadamard(g, b.rows)), (b, lambda g: hadamard(g, self.rows))
        return Value(rows, by="*", made=made, pulls=pulls)

    def __add__(self, b: "Value") -> "Value":
        return Value(
            each(add, self.rows, b.rows),
            by="+",
            pulls=((self, lambda g: (g, 0)), (b, lambda g: (g, 0))),
        )

    def sum(self) -> "Value":
        pulls = ((self, lambda g: (each(lambda _: g[0][0], self.rows), 0)),)
        return Value(sum(map(sum, self.rows)), by="sum", pulls=pulls)

    def exp(self) -> "Value":
        return self._map("exp", math.exp, lambda x, y: y)

    def relu(self) -> "Value":
        return self._map("relu", lambda x: max(x, 0.0), lambda x, y: float(x > 0))

    def _map(self, by: str, f: Callable, slope: Callable) -> "Value":
        slopes = each(slope, self.rows, rows := each(f, self.rows))
        return Value(rows, by=by, pulls=((self, lambda g: hadamard(g, slopes)),))

    def graph(self) -> list["Value"]:
        """All that this value was made from, parents before children, itself last."""
        order, stack = dict[Value, None](), [self]
        while stack:  # not recursive: graphs get deeper than Python's stack
            if waiting := [parent for parent, _ in stack[-1].pulls if parent not in order]:
                stack += waiting
            else:
                order[stack.pop()] = None
        return list(order)

    def backward(self) -> dict["Value", Rows]:
        """Add dL/dleaf to the `grad` of every leaf that needs one, this value being L; return what
        arrived where.
        """
        if [len(row) for row in self.rows] != [1]:
            raise InputError(f"backward from {self.rows}: expected a loss, a single number")
        arrived: dict[Value, Rows] = {self: [[1.0]]}
        for value in filter(arrived.__contains__, reversed(self.graph())):
            g = arrived[value]
            if not value.pulls:
                value.grad = each(add, value.grad, g) if value.grad else g
            for parent, pull in value.pulls:
                if parent.needs_grad:
                    share, count = pull(g)
                    value.pulled += count
                    arrived[parent] = (
                        each(add, arrived[parent], share) if parent in arrived else share
                    )
        return arrived
