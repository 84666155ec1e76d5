"""Rounding in a sum over ranks: every partial sum is rounded, and the algorithm decides which
partial sums there are.

N ranks · j terms in a partial sum
u unit roundoff, half the step above 1: 2**-8 in bf16, 2**-24 in fp32

A sum of j independent numbers of mean 0 and spread s has the spread s sqrt(j); so the error is told
in units of it.
"""

from math import log, sqrt

from mathlib.checks import one_of, whole
from mathlib.memory.precision import number_type

# A number is rounded by at most half a step, and the step is 2u times the power of two below the
# number. Errors spread evenly over it have the mean square (2u)**2 / 12 times that power of two
# squared, which is on average 3 / (8 ln 2) of the number squared when its logarithm is spread
# evenly: u**2 / (8 ln 2) in all.
TYPICAL = 1 / sqrt(8 * log(2))


def chain(n: int) -> list[int]:
    """One after the other, as a piece goes round the ring: partial sums of 2, 3, ..., N terms.

    Chapter: collectives
    """
    return list(range(2, n + 1))


def pairs(n: int) -> list[int]:
    """Two by two, as up a binomial tree: N/2 partial sums of 2 terms, N/4 of 4, ..., one of N.

    Chapter: collectives
    """
    sums, near = [], 1
    while near < n:
        sums += [min(2 * near, n - i) for i in range(0, n - near, 2 * near)]
        near *= 2
    return sums


ORDERS = {"ring": chain, "tree": pairs}


def error(order: str, *, ranks: int, dtype: str) -> float:
    """Root mean square error of a sum over its spread: u sqrt(sum of j over the partial sums / (8 N
    ln 2)).

    Ring: sum of j = (N-1)(N+2)/2, so it grows like sqrt(N). Tree: N log2 N, so like sqrt(log2 N).
    For independent numbers of mean 0; the worst case grows like N and log2 N (Higham 1993). Two
    numbers of like size leave few bits to round off, and a lone bit is nothing or half a step: a
    tree's errors are 8% above this, at any N.

    Chapter: collectives (eq-rounding)
    """
    N, u = whole("ranks", ranks), number_type(dtype).epsilon / 2
    return u * TYPICAL * sqrt(sum(ORDERS[one_of("order", order, ORDERS)](N)) / N)
