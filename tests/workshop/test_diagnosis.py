"""Exact numbers tell what went wrong."""

import pytest

from mathlib.workshop.diagnosis import differs, each_rank, joined, listed, sum_differs, total
from mathlib.workshop.draw import drawn
from mathlib.workshop.tensor import join, vector, zeros

PARTS = [drawn(f"{r}", 6) for r in range(4)]
ALL = total(PARTS)


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (ALL, ""),
        (PARTS[1], "still has its own gradient"),
        (ALL / 4, "has the mean of all gradients: expected their sum"),
        (zeros(6), "has a gradient of nothing but 0"),
        (ALL - PARTS[2], "numbers 0 to 5: the gradient of rank 2 is missing"),
        (PARTS[0] + PARTS[3], "numbers 0 to 5: the gradient of ranks 1 and 2 is missing"),
        (ALL + PARTS[3], "numbers 0 to 5: the gradient of rank 3 counts twice"),
        (
            join([ALL[:4], (ALL - PARTS[0] + PARTS[1])[4:]]),
            "numbers 4 to 5: the gradient of rank 0 is missing; "
            "the gradient of rank 1 counts twice",
        ),
        (ALL * 3 / 2, "has 3/2 times the gradient that is expected"),
        (ALL * -1, "has -1 times the gradient that is expected"),
        (ALL[::-1], "has the right numbers in the wrong places"),
        (drawn("other", 6), "is wrong in 6 of 6 numbers, first in number 0"),
        (ALL[:5], "returns a tensor of 5: expected a tensor of 6"),
        (None, "returns nothing: expected a tensor of 6"),
        ([ALL], "returns list: expected a tensor of 6"),
    ],
)
def test_a_sum_shows_its_terms(got, said):
    assert sum_differs(got, PARTS, "gradient", 1) == said


def test_a_mean_and_ranks_that_are_not_all():
    mean = ALL / 4
    assert sum_differs(mean, PARTS, "gradient", 0, mean=True) == ""
    assert "expected their mean" in sum_differs(ALL, PARTS, "gradient", 0, mean=True)
    less = mean - PARTS[3] / 4
    told = sum_differs(less, PARTS, "gradient", 0, mean=True, of=[0, 2, 5, 7])
    assert told == "numbers 0 to 5: the gradient of rank 7 is missing"
    told = sum_differs(ALL - PARTS[1], PARTS, "term", 0, who="micro-batch")
    assert told == "numbers 0 to 5: the term of micro-batch 1 is missing"


def test_a_known_mistake_has_its_name():
    wanted = drawn("wanted", 2, 3)
    assert differs(wanted * 5, wanted, {"forgets to divide": wanted * 5}) == "forgets to divide"
    other = join([wanted[0], wanted[1] + wanted[0]])
    assert differs(other, wanted) == "is wrong in 3 of 6 numbers, first in row 1"


def test_ranks_are_named():
    assert listed("rank", [2]) == "rank 2" and listed("rank", [0, 1, 4]) == "ranks 0, 1 and 4"
    assert listed("micro-batch", [1, 2]) == "micro-batches 1 and 2"
    said = list(each_rank([1, 2, 3], lambda r, x: "" if r == 0 else f"has {x}"))
    assert said == ["rank 1 has 2", "rank 2 has 3"]


def test_a_list_of_tensors_is_compared_as_one():
    one, other = vector([1]), vector([2, 3])
    assert joined([one, other]) == vector([1, 2, 3]) == joined((one, other))
    assert joined([]) == [] and joined([one, None]) == [one, None] and joined(one) is one
