"""Claim C10: twice the GPUs, something breaks every day."""

import pytest

from mathlib.trials import planning_failures as study
from mathlib.trials.planning_scaling import DAY, HOUR


def test_three_times_as_long_takes_rare_saves_or_repairs_that_never_end():
    both = [[study.twice(*case, again) for again in (False, True)] for case in study.CASES.values()]
    hourly, night, repairs, saves = both
    assert max(hourly) < 0.52 and 0.75 < min(night) < max(night) < 0.79
    assert repairs[0] < 1 < 3 < repairs[1] and min(saves) > 3


def test_repairs_alone_never_lose_the_gain_if_what_waits_does_not_break():
    assert all(study.twice(HOUR, days * DAY, False) < 1 for days in (1, 5, 50))
    assert study.twice(HOUR, 5 * DAY, True) > 1


def test_both_published_runs_gained_from_their_second_half():
    opt, meta = study.broke()
    assert opt.half == pytest.approx(0.64, abs=0.005) and meta.half == pytest.approx(
        0.52, abs=0.005
    )
    assert opt.repair > 60 * meta.repair
