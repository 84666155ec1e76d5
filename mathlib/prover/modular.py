"""Matrices of whole numbers modulo a prime: sums are exact, whatever their order.

A matrix is a list of rows; a vector is a matrix of one row.  P = 2^127 - 1, a prime.
"""

from operator import mul

PRIME = 2**127 - 1
Matrix = list[list[int]]


def zeros(rows: int, columns: int) -> Matrix:
    """A matrix of nothing."""
    return [[0] * columns for _ in range(rows)]


def transposed(a: Matrix) -> Matrix:
    """Columns as rows."""
    return [list(column) for column in zip(*a, strict=True)]


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """a b, of (r, i) and (i, o)."""
    return matmul_rows(a, transposed(b))


def matmul_rows(a: Matrix, b: Matrix) -> Matrix:
    """a b^T, of (r, i) and (o, i): each row of a with each row of b."""
    return [[sum(map(mul, row, other)) % PRIME for other in b] for row in a]


def plus(a: Matrix, b: Matrix) -> Matrix:
    """a + b."""
    return [
        [(x + y) % PRIME for x, y in zip(row, other, strict=True)]
        for row, other in zip(a, b, strict=True)
    ]


def product(a: Matrix, b: Matrix) -> Matrix:
    """a and b, number by number."""
    return [
        [x * y % PRIME for x, y in zip(row, other, strict=True)]
        for row, other in zip(a, b, strict=True)
    ]


def times(a: Matrix, number: int) -> Matrix:
    """Every number of a, times one number."""
    return [[x * number % PRIME for x in row] for row in a]


def scaled(a: Matrix, scale: list[int]) -> Matrix:
    """Column j times scale[j]; a shorter scale begins again, as one that all heads share."""
    whole = scale * (len(a[0]) // len(scale)) if a else []
    return [[x * y % PRIME for x, y in zip(row, whole, strict=True)] for row in a]


def column_sums(a: Matrix, columns: int) -> list[int]:
    """The sum of the rows; of a wider matrix, of its blocks of so many columns, too."""
    found = [0] * columns
    for row in a:
        for j, x in enumerate(row):
            found[j % columns] += x
    return [x % PRIME for x in found]


def inverse(number: int) -> int:
    """1 / number: what to multiply by, to divide."""
    return pow(number, -1, PRIME)


def split(n: int, ranks: int, rank: int) -> range:
    """Which of n things are a rank's: as even as whole numbers are, in order."""
    return range(n * rank // ranks, n * (rank + 1) // ranks)
