"""A small GPT in 16 bits: what vanishes, what a step keeps, and that each switch does something."""

import pytest
import torch

from mathlib.model import data
from mathlib.trials import precision as study


def test_fewer_gradients_vanish_with_a_smaller_mean_a_scale_or_more_exponent():
    shares = study.becomes()
    assert shares["zero"] + shares["subnormal"] == pytest.approx(1) and shares["zero"] > 0.4
    assert shares["zero"] > study.becomes(tokens=65_536)["zero"] > 0.1
    assert study.becomes(scale=2.0**16)["zero"] < 0.001 < study.becomes(scale=2.0**40)["too large"]
    assert set(study.becomes(dtype="bf16").values()) == {0}


def test_at_the_queries_and_keys_all_vanish_and_at_the_logits_a_quarter():
    assert study.zero_at() == (1, pytest.approx(0.26, abs=0.02))


def test_a_scale_moves_all_sizes_alike():
    plain, scaled = study.by_size(), study.by_size(2.0**14)
    assert sum(plain.values()) == pytest.approx(1, abs=0.02)
    assert {power + 14: part for power, part in plain.items() if power > -48} == {
        power: part for power, part in scaled.items() if power > -34
    }
    gone = sum(part for power, part in plain.items() if power < -25)
    assert gone == pytest.approx(study.becomes()["zero"], abs=0.01)


def test_gradients_at_the_logits_vanish_where_the_formula_says():
    few, at_most, many = study.vanishing(4096, 256, 2048, 16_384)
    assert few == at_most == 0 and many > 0.99  # 1 / (V D) beside 2**-25


def test_frequencies_alone_are_worth_less_than_equal_chances():
    assert 2.5 < study.frequencies_alone() < torch.tensor(len(data.vocabulary())).log()


def test_runs_differ_by_what_is_switched_on():
    plain = study.trained(steps=3)
    assert plain == study.trained(steps=3) != study.trained(steps=3, seed=1)
    assert study.trained(torch.bfloat16, steps=3) == study.trained(torch.bfloat16, parts=1, steps=3)
    assert study.trained(torch.float16, steps=3) != study.trained(torch.float16, parts=1, steps=3)
    assert study.ending([9.0] * 5 + [1.0] * 20) == 1


def test_equal_steps_move_a_weight_far_and_the_dynamic_map_does_not():
    (_, calm), (_, wild) = (study.with_moments(kind, steps=2) for kind in ("dynamic", "linear"))
    assert calm < 0.02 < 0.3 < wild


def test_a_step_in_16_bits_is_smaller_with_enough_tokens():
    few, many = study.of_fp32(1), study.of_fp32(8)
    assert all(0.5 < b < a for a, b in zip(few, many, strict=True)) and min(few) > 1 > max(many)
    assert 1.9 < study.autocast_copies() < 2
    least, most = study.even(64)
    assert most == 2 * least
    size, wide, _, mixed = study.saved(4)
    assert 16 * size + wide * least / 128 == pytest.approx(18 * size + mixed * least / 128)
