"""A tape: what was computed, so that gradients can go back over it.

x, y   nodes: matrices whose rows are tokens      w   a weight, as torch keeps it: y = x w^T

Every operation here belongs to one rank; `exchanges` has those that ask others.  The gradients of
weights are put off until `weights`, so that a schedule may take them apart from the others.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mathlib.prover.modular import (
    Matrix,
    column_sums,
    matmul,
    matmul_rows,
    plus,
    product,
    scaled,
    transposed,
    zeros,
)
from mathlib.prover.ranks import Asks

Back = Callable[[], Asks | None]


class Node:
    """A matrix, and the gradient of the loss with respect to it, once something has come back."""

    __slots__ = ("gradient", "rows")

    def __init__(self, rows: Matrix):
        self.rows, self.gradient = rows, list[list[int]]()

    def add(self, gradient: Matrix) -> None:
        """One more use of this node has told its share."""
        self.gradient = plus(self.gradient, gradient) if self.gradient else gradient

    @property
    def came_back(self) -> Matrix:
        """The gradient; nothing but zeros where nobody sent any."""
        return self.gradient or [[0] * len(row) for row in self.rows]


class Tape:
    """The ways back of what was computed, in the order of computing."""

    def __init__(self) -> None:
        self.ways = list[Back]()
        self.later = list[Callable[[], None]]()

    def made(self, rows: Matrix, back: Callable[[Node], Asks | None]) -> Node:
        """A new node and its way back."""
        y = Node(rows)
        self.ways.append(lambda: back(y))
        return y

    def backward(self) -> Asks:
        """All ways back, from the last; weights' gradients are put off."""
        for way in reversed(self.ways):
            asks = way()
            if asks is not None:
                yield from asks
        self.ways.clear()

    def weights(self) -> None:
        """The gradients that were put off."""
        for one in self.later:
            one()
        self.later.clear()

    def linear(self, x: Node, w: Node) -> Node:
        """x w^T."""

        def back(y: Node) -> None:
            dy, before = y.came_back, x.rows
            if before:
                x.add(matmul(dy, w.rows))
                self.later.append(lambda: w.add(matmul(transposed(dy), before)))

        return self.made(matmul_rows(x.rows, w.rows), back)

    def shift(self, x: Node, bias: Node) -> Node:
        """The bias added to every row."""

        def back(y: Node) -> None:
            dy = y.came_back
            x.add(dy)
            self.later.append(lambda: bias.add([column_sums(dy, len(bias.rows[0]))]))

        return self.made(plus(x.rows, bias.rows * len(x.rows)), back)

    def scale(self, x: Node, w: Node) -> Node:
        """Every column times its weight; what stands in for a norm."""

        def back(y: Node) -> None:
            dy, before = y.came_back, x.rows
            x.add(scaled(dy, w.rows[0]))
            self.later.append(lambda: w.add([column_sums(product(dy, before), len(w.rows[0]))]))

        return self.made(scaled(x.rows, w.rows[0]), back)

    def add(self, a: Node, b: Node) -> Node:
        """a + b."""

        def back(y: Node) -> None:
            a.add(y.came_back)
            b.add(y.came_back)

        return self.made(plus(a.rows, b.rows), back)

    def multiply(self, a: Node, b: Node) -> Node:
        """Number by number; the activation of a gated MLP without any other function."""

        def back(y: Node) -> None:
            a.add(product(y.came_back, b.rows))
            b.add(product(y.came_back, a.rows))

        return self.made(product(a.rows, b.rows), back)

    def pick(self, x: Node, places: Sequence[int]) -> Node:
        """The rows at these places; a row may be wanted several times or never."""

        def back(y: Node) -> None:
            x.add(spread(y.came_back, places, x.rows))

        return self.made([x.rows[i] for i in places], back)

    def look_up(self, table: Node, places: Sequence[int | None]) -> Node:
        """A row of a table for each token; zeros where it is somebody else's."""
        wide = len(table.rows[0])
        rows = [[0] * wide if i is None else table.rows[i] for i in places]

        def back(y: Node) -> None:
            dy = y.came_back
            self.later.append(lambda: table.add(spread(dy, places, table.rows)))

        return self.made(rows, back)

    def joined(self, parts: Sequence[Node], order: Sequence[int]) -> Node:
        """The rows of all parts, one after the other, then in this order."""
        rows = [row for part in parts for row in part.rows]

        def back(y: Node) -> None:
            dy, start = y.came_back, 0
            by_part: list[Any] = [None] * len(order)
            for row, place in zip(dy, order, strict=True):
                by_part[place] = row
            for part in parts:
                part.add(by_part[start : start + len(part.rows)])
                start += len(part.rows)

        return self.made([rows[i] for i in order], back)


def spread(rows: Matrix, places: Sequence[int | None], like: Matrix) -> Matrix:
    """Rows added up at their places."""
    found = zeros(len(like), len(like[0]) if like else 0)
    for row, place in zip(rows, places, strict=True):
        if place is not None:
            found[place] = plus([found[place]], [row])[0]
    return found
