"""What ratios of tokens to parameters waste."""

import pytest

from mathlib.compute import scaling
from mathlib.trials import planning_scaling as study


def test_the_best_ratio_wastes_nothing_and_others_what_the_chapter_says():
    best = scaling.optimal(flop=study.BUDGET).tokens_per_parameter
    assert best == pytest.approx(20, abs=0.2)
    assert study.wasted(best) == pytest.approx(0, abs=1e-6)
    for times, lost in ((0.5, 0.04), (2, 0.04), (0.25, 0.16), (4, 0.16)):
        assert study.wasted(times * best) == pytest.approx(lost, abs=0.005)
    inside = [lost for r, lost in study.valley() if 10 <= r <= 40]
    assert len(inside) == 5 and max(inside) < 4.3 < max(lost for _, lost in study.valley())


def test_a_model_that_is_used_is_smaller_and_reads_longer():
    sizes = [study.served(tokens) for tokens in (0.0, 1e11, 1e12)]
    assert [one.parameters for one, _ in sizes] == sorted(
        (one.parameters for one, _ in sizes), reverse=True
    )
    assert sizes[0][1] == pytest.approx(0, abs=1e-9) and 0.15 < sizes[2][1] < 0.17
    assert [row[0] for row in study.lives()] == ["none", "100B", "1T", "10T"]


def test_four_fits_agree_and_two_do_not():
    found = study.ratios()
    agree = [r for fit in study.FITS[:4] for r in found[fit]]
    assert 16 < min(agree) < max(agree) < 27
    assert found["hoffmann-3"][1] > 80 and found["kaplan"][1] < 1


def test_more_digits_do_not_mend_a_faulty_fit():
    fits = ("hoffmann-3", "hoffmann-3-digits", "besiroglu")
    asked = [scaling.optimal(flop=study.BUDGET, fit=f).tokens_per_parameter for f in fits]
    assert [round(r) for r in asked] == [69, 45, 20]
