"""FLOP of updates of whole matrices: what holds at any size; runs are counted in test_muon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import flops, matrix_updates, params

sides = st.integers(1, 500)


@given(sides, sides, st.integers(1, 9))
def test_either_side_may_be_the_longer_and_steps_add_up(m, n, steps):
    one = matrix_updates.newton_schulz(rows=m, columns=n, steps=1)
    assert matrix_updates.newton_schulz(rows=n, columns=m, steps=steps) == steps * one
    assert matrix_updates.newton_schulz(rows=m, columns=m, steps=1) == 6 * m**3
    assert matrix_updates.shampoo(rows=m, columns=n) == matrix_updates.shampoo(rows=n, columns=m)


def test_a_model_s_updates_are_those_of_its_matrices():
    found = matrix_updates.muon("llama3-8b")
    assert found["key"] == 32 * matrix_updates.newton_schulz(rows=1024, columns=4096)
    assert found["down"] == found["up"]
    whole = flops.training("llama3-8b", tokens=4096).total * 2**22 / 4096
    assert 0.003 < found.total / whole < 0.004, "of a step of 4 million tokens"
    assert matrix_updates.share(width=4096, batch_tokens=2**22) == pytest.approx(0.0049, abs=1e-4)


def test_dora_s_norms_multiply_b_and_a_and_other_names_are_refused():
    body = [m for m in params.matrices("llama3-8b") if m.name in ("query", "down")]
    numbers = sum(m.parameters for m in body)
    how = {"targets": ("query", "down")}
    assert matrix_updates.adapted_norms("llama3-8b", rank=16, **how) == 32 * numbers
    with pytest.raises(InputError, match="targets"):
        matrix_updates.adapted_norms("llama3-8b", rank=16, targets=("quary",))
