"""Partial sums counted on a list of additions, and the laws of the error that follows from them."""

from math import log, log2, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.traffic import rounding

RANKS = st.integers(1, 3000)


def pairwise(n: int) -> list[int]:
    """Every rank's number, added up the binomial tree; returns the terms of each sum as it is
    formed.
    """
    held, made, bit = dict.fromkeys(range(n), 1), [], 1
    while bit < n:
        for rank in sorted(held):
            if rank & bit:
                held[rank - bit] += held.pop(rank)
                made.append(held[rank - bit])
        bit *= 2
    return made


@given(RANKS)
def test_partial_sums_are_those_of_the_algorithms(n: int) -> None:
    assert rounding.pairs(n) == pairwise(n)
    assert len(rounding.pairs(n)) == len(rounding.chain(n)) == n - 1, (
        "a sum of N numbers takes N - 1 additions"
    )


@given(st.integers(0, 12))
def test_closed_forms(e: int) -> None:
    n, u = 2**e, 2.0**-8
    each = u / sqrt(8 * log(2))
    assert rounding.error("tree", ranks=n, dtype="bf16") == pytest.approx(each * sqrt(log2(n)))
    assert rounding.error("ring", ranks=n, dtype="bf16") == pytest.approx(
        each * sqrt((n - 1) * (n + 2) / (2 * n))
    )


@given(RANKS)
def test_a_tree_is_never_worse_than_a_ring(n: int) -> None:
    ring, tree = (rounding.error(order, ranks=n, dtype="fp32") for order in ("ring", "tree"))
    assert tree <= ring and (tree < ring or n <= 3)
    assert rounding.error("ring", ranks=n, dtype="bf16") == pytest.approx(2**16 * ring)


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"order": "star", "ranks": 4, "dtype": "bf16"}, "order = 'star'"),
        ({"order": "ring", "ranks": 0, "dtype": "bf16"}, "ranks = 0"),
        ({"order": "ring", "ranks": 4, "dtype": "int8"}, "dtype = 'int8'"),
    ],
)
def test_bad_input_names_the_argument(given_: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        rounding.error(**given_)
