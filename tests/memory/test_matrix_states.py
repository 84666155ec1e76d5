"""States of optimizers of whole matrices, by hand; runs are measured in test_muon."""

import pytest

from mathlib.compute import params
from mathlib.memory import matrix_states

GIB = 2**30


def test_muon_keeps_half_of_adam_s_for_matrices_alone():
    found = matrix_states.muon("llama3-8b")
    body = sum(m.parameters for m in params.matrices("llama3-8b")[:-1])
    assert found["momentum"] == 4 * body
    assert found["moments of the rest"] == 8 * (params.total("llama3-8b") - body)
    assert matrix_states.muon("llama3-8b", dtype="bf16").total == found.total / 2


def test_deepspeed_s_saving_is_neither_the_whole_states_nor_an_eighth_of_them():
    """Qwen2.5-3B, stage 2 on 8 GPUs: printed 34.5 and 31.4 GiB, all of it from states."""
    less = 8 * params.total("qwen2.5-3b") - matrix_states.muon("qwen2.5-3b").total
    assert less / GIB == pytest.approx(10.3, abs=0.05)
    assert less / 8 / GIB == pytest.approx(1.29, abs=0.005)
    assert less / 8 / GIB < 34.5 - 31.4 < less / GIB


def test_shampoo_s_factors_are_squares_and_blocks_bound_them():
    found = matrix_states.shampoo("llama3-8b")
    h, f, k, L = 4096, 14336, 1024, 32
    left = 2 * h**2 + 2 * k**2 + 2 * (8192**2 + (f - 8192) ** 2) + 2 * h**2
    assert found["left factors"] == 4 * L * left == found["left roots"]
    small = matrix_states.shampoo("llama3-8b", block=1024)
    body = sum(m.parameters for m in params.matrices("llama3-8b")[:-1])
    assert small["left factors"] == 4 * body == small["right roots"], "squares of one size"
    assert small.total < found.total
