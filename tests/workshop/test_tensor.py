"""Tensors: exact, of one shape, and counted while they live."""

import pytest

from mathlib.checks import InputError
from mathlib.prover.modular import PRIME
from mathlib.workshop.draw import drawn
from mathlib.workshop.tensor import Live, held_by, join, matrix, vector, zeros


def test_numbers_are_exact():
    a, b = vector([1, 2, 3]), vector([10, 20, 30])
    assert a + b == vector([11, 22, 33]) and b - a == vector([9, 18, 27])
    assert a * b == vector([10, 40, 90]) and (a * 5) / 5 == a == 2 * a - a
    assert (a / 3) * 3 == a and vector([-1]).item() == PRIME - 1


def test_matrices():
    a, b = matrix([[1, 2], [3, 4]]), matrix([[0, 1], [1, 0]])
    assert a @ b == matrix([[2, 1], [4, 3]]) and matrix([[1, 3], [2, 4]]) == a.T
    assert a * vector([10, 100]) == matrix([[10, 200], [30, 400]])
    assert a.sum() == vector([4, 6])


@pytest.mark.parametrize(("numbers", "n"), [(12, 4), (7, 3), (2, 5)])
def test_shards_are_even_and_join_to_the_whole(numbers, n):
    whole = drawn("whole", numbers)
    shards = whole.shards(n)
    assert join(shards) == whole and len(shards) == n
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    rows = drawn("rows", numbers, 2)
    assert join(rows.shards(n)) == rows


def test_rows_are_picked_by_place_and_none_is_a_matrix_too():
    a = matrix([[1, 2], [3, 4], [5, 6]])
    assert a[[2, 0]] == matrix([[5, 6], [1, 2]]) and a[1] == matrix([[3, 4]])
    none = a[[]]
    assert none.shape == (0, 2) and join([none, a]) == a and none.T.shape == (2, 0)
    assert (none @ matrix([[1], [1]])).shape == (0, 1) and none * none == none
    assert none.T @ none == zeros(2, 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: vector([1]) + vector([1, 2]), "tensor of 1 + tensor of 2: the shapes differ"),
        (lambda: vector([1]) + 1, "+ int 1: expected a tensor"),
        (lambda: zeros(2, 3) @ zeros(2, 3), "the inner sizes 3 and 2 differ"),
        (lambda: vector([1]) @ vector([1]), "expected two dims"),
        (lambda: vector([1]) / 0, "expected a whole number other than 0"),
        (lambda: vector([1]) / 0.5, "expected a whole number other than 0"),
        (lambda: vector([1, 2])[2], "its places are 0 to 1"),
        (lambda: join([]), "join of nothing"),
        (lambda: join([zeros(1, 2), zeros(1, 3)]), "expected one width"),
        (lambda: vector([1, 2]).item(), "expected one number"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, said):
    with pytest.raises(InputError, match=said.replace("+", r"\+")):
        wrong()


def test_live_numbers_are_those_that_somebody_holds():
    live = Live()
    with held_by(live):
        a = zeros(10)
        b = a[:4]
        assert (live.now, live.peak) == (14, 14)
        b = b + b
        assert (live.now, live.peak) == (14, 18)
    c = a * 1  # made elsewhere
    del a
    assert live.now == 4 and len(c) == 10 and len(b) == 4
