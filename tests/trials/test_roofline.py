"""Matmuls and attention beneath a roof, by hand."""

import pytest

from mathlib.trials import roofline as study


def test_only_matmuls_and_flash_attention_reach_the_ridge():
    found = study.kinds()
    assert [at > study.RIDGE for at in found.values()] == [True, True, *5 * [False]]
    assert list(found.values())[4:6] == [1 / 6, 14 / 30], "one addition for three numbers; Adam"
    assert study.of_scores() == pytest.approx(128 / study.RIDGE, rel=1e-3)
    assert dict(study.by_length()["scores written"])[32768] < 128


def test_a_correction_slows_a_matmul_down():
    flop, moved = 2 * 256 * 256 * 2048, 2 * (256 * 256 + 2 * 256 * 2048)
    bound = flop / moved * study.H100.memory_bandwidth
    assert study.foreseen(256, 256, 2048) == pytest.approx(bound)
    ways = [study.foreseen(2048, 2048, 2048, **how) for how in study.WAYS.values()]
    assert ways == sorted(ways, reverse=True) and len(set(ways)) == 4
    assert study.foreseen(64, 10**6, 64, tiles=True) == pytest.approx(study.H100.half / 132)


def test_corrections_predict_what_they_were_not_read_off():
    bound, *_, all_three = (study.too_high(study.LATER, **how) for how in study.WAYS.values())
    assert bound[1] > 1 and bound[0] > 3 and 0.9 < all_three[1] < all_three[2] < 1.25
    assert round(1e6 * study.LEAST, 1) == 5.9 and study.corrected()[0][1] == "3.13"
