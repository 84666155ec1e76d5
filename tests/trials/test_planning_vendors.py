"""Pairs of two makers' GPUs."""

from mathlib.trials import planning_vendors as study


def test_data_sheets_lead_and_runs_do_not():
    pairs = study.pairs()
    assert [one.title for one in pairs] == ["MI250 and A100", "MI250X and A100", "MI300X and H100"]
    assert all(min(one.peak, one.bandwidth, one.memory) > 1.1 and one.speed < 1 for one in pairs)
    assert [f"{one.speed:.2f}" for one in pairs] == ["0.73", "0.99", "0.87"]
    assert 1 - pairs[-1].speed > study.APART
    assert all(one.of_peak == one.speed / one.peak for one in pairs)
