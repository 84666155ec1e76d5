"""Random programs in two engines: they agree, and the comparison sees what is wrong."""

import math

import pytest
import torch

from mathlib.compute.autodiff import Value
from mathlib.trials import autograd_faults
from mathlib.trials import autograd_programs as programs

RIGHT = [programs.with_torch(seed) for seed in range(100)]


def test_both_engines_agree():
    assert programs.disagreements(RIGHT) == [0, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_a_program_is_the_same_in_both_engines(seed):
    ours = programs.random_program(seed, lambda rows, wants: Value(rows, needs_grad=wants))
    theirs = programs.random_program(seed, lambda rows, _: torch.tensor(rows, dtype=torch.float64))
    assert len(ours) == len(theirs) == 4 + 12 + 1
    for mine, other in zip(ours, theirs, strict=True):
        expected = other if other.dim() else other.reshape(1, 1)
        torch.testing.assert_close(torch.tensor(mine.rows, dtype=torch.float64), expected)


def test_data_gets_no_gradient_and_the_last_leaf_always_one():
    for gradients, seen in RIGHT:
        assert gradients[0] is None and gradients[3] is not None
        assert 0 not in seen and 3 in seen and seen[0] == 16


@pytest.mark.parametrize("seed", range(20))
def test_every_step_leads_to_the_loss(seed):
    values = programs.random_program(seed, lambda rows, wants: Value(rows, needs_grad=wants))
    assert set(values) < set(values[-1].graph())
    assert values[-1].rows[0][0] == pytest.approx(
        sum(sum(map(sum, value.rows)) for value in values[:-1])
    )


def test_a_share_that_is_lost_is_seen_in_the_gradients():
    with autograd_faults.built_in("walk: a share is lost"):
        wrong, other, stopped = programs.disagreements(RIGHT)
    assert wrong > 20 and other == stopped == 0


def test_another_walk_is_seen_in_the_order():
    with autograd_faults.built_in("walk: leaves come last"):
        wrong, other, stopped = programs.disagreements(RIGHT)
    assert other > 20 and wrong == stopped == 0


def test_square_matrices_hide_no_matmul_that_is_not_transposed():
    square = [programs.with_torch(seed, tall=3) for seed in range(100)]
    assert programs.disagreements(square, tall=3) == [0, 0, 0]
    with autograd_faults.built_in("A B: B is not transposed"):
        wrong, _, stopped = programs.disagreements(square, tall=3)
    assert wrong > 50 and stopped == 0


def test_a_shape_that_does_not_fit_stops_a_program():
    with autograd_faults.built_in("A B: B is not transposed"):
        assert programs.disagreements(RIGHT)[2] > 10


def test_gradients_are_compared_over_their_size_and_by_shape():
    big, near = torch.tensor([[1e6, 1.0]]), torch.tensor([[1e6, 2.0]])
    assert programs.apart(near, big) == pytest.approx(1e-6)
    assert programs.apart(None, None) == 0.0
    assert programs.apart(None, big) == programs.apart(big, None) == math.inf
    assert programs.apart(big.T, big) == math.inf
    assert programs.apart(torch.ones(1), torch.zeros(1)) == 1.0


def test_an_exponential_is_taken_of_small_numbers_only():
    small, large = Value([[0.5, -3.0]]), Value([[0.5, 1.0]])
    assert programs.fits(programs.exp, small, small) and not programs.fits(
        programs.exp, large, large
    )
    assert programs.fits(programs.relu, large, large)
