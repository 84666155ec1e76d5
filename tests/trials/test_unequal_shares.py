"""Unequal shares train what one process trains."""

import pytest

from mathlib.model import oracle
from mathlib.trials import unequal_shares as fair


@pytest.mark.parametrize("name", oracle.OPTIMIZERS)
def test_batches_and_shards_of_any_size_train_as_one_process(name):
    one = fair.shared(name, (5, 0, 7), (1, 2, 1))
    assert one.far < oracle.EQUAL
    assert sum(one.kept) == fair.NUMBERS and one.kept[1] > 1.9 * one.kept[0]


def test_means_that_count_alike_train_something_else():
    assert fair.unweighted() > 1e-5


@pytest.mark.parametrize("name", oracle.OPTIMIZERS)
def test_stages_of_any_size_train_as_one_process(name):
    assert fair.staged(name, (1, 5, 4, 2)) < oracle.EQUAL


def test_what_is_gained_by_the_model():
    assert fair.gain("sequences").model == 1.5
    assert fair.gain("stages").model == pytest.approx(4 / 3)
