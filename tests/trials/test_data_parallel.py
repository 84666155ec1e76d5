"""The plain replicas as the chapter runs them."""

import pytest

from mathlib.model import oracle
from mathlib.trials import data_parallel


def test_replicas_that_average_train_as_one_process_and_no_others():
    for case, gap in data_parallel.distances(3).items():
        assert (gap < oracle.EQUAL) == ("no all-reduce" not in case), case


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_rank_sends_what_the_formula_says(ranks):
    formula, *counted = data_parallel.sent(ranks)
    assert counted == pytest.approx([formula] * 2, abs=1e-6)


def test_only_tokens_weigh_parts_and_micro_batches_right():
    by_tokens, alike = data_parallel.weighed(2).values()
    assert by_tokens < oracle.EQUAL < 1e-3 < alike
    wanted = data_parallel.at_once((3, 9))
    right, wrong = (
        oracle.distance([data_parallel.accumulated((3, 9), way)], wanted) for way in (True, False)
    )
    assert right < oracle.EQUAL < 1e-3 < wrong


def test_linear_scaling_errs_in_step_with_the_rate_and_adam_hides_a_factor():
    small, large = (data_parallel.apart(rate) for rate in (1e-4, 1e-3))
    assert large / small == pytest.approx(10, rel=0.1)
    assert data_parallel.farther("SGD", 3) == pytest.approx(3)
    assert data_parallel.farther("Adam", 3) == pytest.approx(1, abs=1e-3)
