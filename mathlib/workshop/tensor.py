"""Tensors of whole numbers modulo a prime: sums are exact, shapes are checked, holders counted.

A tensor never changes; every operation makes a new one.  It belongs to the rank that made it, and
counts among that rank's live numbers until nothing there refers to it.  A shard is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mathlib.checks import InputError
from mathlib.prover.modular import (
    PRIME,
    Matrix,
    column_sums,
    inverse,
    matmul,
    plus,
    product,
    scaled,
    split,
    times,
    transposed,
)

Shape = tuple[int, ...]


class Live:
    """The numbers that a rank holds now, and the most it ever held."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def add(self, numbers: int) -> None:
        self.now += numbers
        self.peak = max(self.peak, self.now)


_holders = [Live()]  # the last one is whose turn it is


@contextmanager
def held_by(live: Live) -> Iterator[None]:
    """Tensors that are made meanwhile belong to this rank."""
    _holders.append(live)
    try:
        yield
    finally:
        _holders.pop()


class Tensor:
    """One or two dims; a vector is kept as a matrix of one row."""

    __slots__ = ("live", "rows", "shape")

    def __init__(self, rows: Matrix, shape: Shape):
        self.rows, self.shape, self.live = rows, shape, _holders[-1]
        self.live.add(self.numbers)

    def __del__(self) -> None:
        if hasattr(self, "live"):
            self.live.add(-self.numbers)

    @property
    def numbers(self) -> int:
        """How many it holds."""
        return self.shape[0] * self.shape[-1] if len(self.shape) == 2 else self.shape[0]

    @property
    def T(self) -> Tensor:  # noqa: N802
        """Columns as rows."""
        rows, columns = self._matrix("T")
        return Tensor(
            transposed(self.rows) if rows else [[] for _ in range(columns)], (columns, rows)
        )

    def __add__(self, other: Tensor) -> Tensor:
        return self._each("+", other, plus)

    def __sub__(self, other: Tensor) -> Tensor:
        return self._each("-", other, lambda a, b: plus(a, times(b, -1)))

    def __mul__(self, other: Tensor | int) -> Tensor:
        """With a number, number by number, or each column of a matrix with a number of a vector."""
        if isinstance(other, int):
            return Tensor(times(self.rows, other), self.shape)
        if self.shape[1:] == _tensor("*", other).shape:
            return Tensor(scaled(self.rows, other.rows[0]), self.shape)
        return self._each("*", other, product)

    __rmul__ = __mul__

    def __truediv__(self, number: int) -> Tensor:
        """Exactly: times what gives 1 when multiplied with the number."""
        if not isinstance(number, int) or number % PRIME == 0:
            raise InputError(f"/ {described(number)}: expected a whole number other than 0")
        return Tensor(times(self.rows, inverse(number)), self.shape)

    def __matmul__(self, other: Tensor) -> Tensor:
        (rows, inner), (there, columns) = self._matrix("@"), _tensor("@", other)._matrix("@")
        if inner != there:
            raise InputError(f"{self} @ {other}: the inner sizes {inner} and {there} differ")
        found = matmul(self.rows, other.rows) if inner and columns else [[0] * columns] * rows
        return Tensor(found, (rows, columns))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: slice | int | Sequence[int]) -> Tensor:
        """Numbers of a vector, or rows of a matrix: a slice, one or a list of places."""
        try:
            chosen = range(len(self))[places] if isinstance(places, slice) else places
            listed = [chosen] if isinstance(chosen, int) else list(chosen)
            if len(self.shape) == 1:
                return Tensor([[self.rows[0][i] for i in listed]], (len(listed),))
            return Tensor([self.rows[i] for i in listed], (len(listed), self.shape[1]))
        except IndexError:
            raise InputError(f"{self}[{places}]: its places are 0 to {len(self) - 1}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and (self.shape, self.rows) == (other.shape, other.rows)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"tensor of {' x '.join(map(str, self.shape))}"

    def sum(self) -> Tensor:
        """Of the rows of a matrix: a vector."""
        _, columns = self._matrix("sum")
        return vector(column_sums(self.rows, columns))

    def item(self) -> int:
        """The number of a tensor that holds only one."""
        if self.numbers != 1:
            raise InputError(f"item of a {self}: expected one number")
        return self.rows[0][0]

    def shards(self, n: int) -> list[Tensor]:
        """Cut into n along the first dim, as even as whole numbers are."""
        return [self[span.start : span.stop] for span in (split(len(self), n, r) for r in range(n))]

    def _matrix(self, what: str) -> Shape:
        if len(self.shape) != 2:
            raise InputError(f"{what} of a {self}: expected two dims")
        return self.shape

    def _each(self, sign: str, other: Any, make: Callable[[Matrix, Matrix], Matrix]) -> Tensor:
        if self.shape != _tensor(sign, other).shape:
            raise InputError(f"{self} {sign} {other}: the shapes differ")
        return Tensor(make(self.rows, other.rows), self.shape)


def _tensor(sign: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise InputError(f"{sign} {described(value)}: expected a tensor")
    return value


def described(value: Any) -> str:
    """A thing that is no tensor, and what was perhaps forgotten."""
    if hasattr(value, "__await__"):
        return f"{getattr(value, '__name__', None) or repr(value)} without await"
    return f"{type(value).__name__} {value!r}"


def vector(numbers: Sequence[int]) -> Tensor:
    """One dim."""
    return Tensor([[n % PRIME for n in numbers]], (len(numbers),))


def matrix(rows: Matrix) -> Tensor:
    """Two dims, with a row at least."""
    return Tensor([[n % PRIME for n in row] for row in rows], (len(rows), len(rows[0])))


def zeros(*shape: int) -> Tensor:
    """Nothing yet, to add up in."""
    rows = shape[0] if len(shape) == 2 else 1
    return Tensor([[0] * shape[-1] for _ in range(rows)], shape)


def join(parts: Sequence[Tensor]) -> Tensor:
    """One after the other along the first dim: what `shards` cut."""
    tails = {part.shape[1:] for part in parts}
    if len(tails) != 1:
        raise InputError(f"join of {', '.join(map(str, parts)) or 'nothing'}: expected one width")
    (tail,), long = tails, sum(map(len, parts))
    if not tail:
        return Tensor([[n for part in parts for n in part.rows[0]]], (long,))
    return Tensor([row for part in parts for row in part.rows], (long, *tail))
