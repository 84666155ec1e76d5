"""The plain file of experts runs: the model of one process, faults that are seen, and one that Adam
hides; what it sends beside parts of experts.
"""

import pytest

from mathlib.model import oracle
from mathlib.trials import experts


def test_ranks_train_the_model_of_one_process_and_with_a_fault_another():
    cases = [(2, "SGD", fault) for fault in experts.FAULTS] + [(4, "Adam", "")]
    right, copies, alone, adam = (max(steps) for steps in experts.distances(4, cases))
    assert max(right, adam) < oracle.EQUAL < 1e-5 < min(copies, alone)


def test_adam_hides_a_gradient_that_is_twice_too_large():
    assert experts.stretched("SGD") == pytest.approx(2)
    assert experts.stretched("Adam") == pytest.approx(1, abs=0.01)


def test_whole_experts_send_a_kth_of_the_ranks_as_much_as_parts_and_multiply_wider_matrices():
    for k, (whole, parts, *system) in experts.either(2, (1, 4)).items():
        assert whole / parts == pytest.approx(k / 2, rel=0.03)
        assert system[0] / system[1] == pytest.approx(k / 2, rel=0.05)
    found = experts.matrices(2)
    assert found == {"whole": (4, 24, 12), "parts": (8, 24, 6)}
