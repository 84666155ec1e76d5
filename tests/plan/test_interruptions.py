"""What stops runs: published ones, and chance played out."""

import pytest

from mathlib.checks import InputError
from mathlib.plan import goodput, interruptions

HOUR, DAY, YEAR = 3600.0, 86400.0, 365.25 * 86400.0
LLAMA, OPT = "Llama 3 405B, 16,384 H100", "OPT-175B, 992 A100"


def test_llama_3_stops_every_three_hours_and_a_device_fails_once_in_six_years():
    run = interruptions.find_record(LLAMA)
    assert run.time_between_failures == pytest.approx(3.09 * HOUR, rel=0.002)
    assert run.device_time_between_failures == pytest.approx(5.78 * YEAR, rel=0.002)
    nodes = run.devices / 8 * run.seconds / DAY
    # Kokolis et al. 2024 (arXiv:2410.21680): 6.50 and 2.34 in 1000 node-days, on their two clusters
    rate = 1000 * run.failures / nodes
    assert 2.34 < rate < 6.50 and rate == pytest.approx(3.79, abs=0.01)


def test_llamas_ninety_percent_leave_no_time_for_slow_saves_or_restarts():
    """419 stops in 54 days and 90%: a save may hold the job for less than a minute, and a restart
    for a quarter of an hour. MegaScale's, which also prints 90%, catches up in 15 minutes
    (arXiv:2402.15627, section 6).
    """
    run = interruptions.find_record(LLAMA)
    given = {"goodput": run.effective, "time_between_failures": run.time_between_failures}
    minutes = {
        save: goodput.repair_for(**given, time_per_save=save) / 60 for save in (1.0, 10.0, 30.0)
    }
    assert minutes[1] == pytest.approx(17.1, abs=0.1)
    assert minutes[10] == pytest.approx(11.6, abs=0.1)
    assert minutes[30] == pytest.approx(5.8, abs=0.1)
    with pytest.raises(InputError, match="expected at most 0.8997"):
        goodput.repair_for(**given, time_per_save=60.0)


def test_opts_share_means_a_night_for_each_failure():
    """105 stops in 2 months, and 34 days' worth of training: 8 to 10 hours lost for each."""
    run = interruptions.find_record(OPT)
    assert run.failures == run.manual + 70 and run.devices * 34 * 24 == 809_472
    hours = [
        goodput.repair_for(
            goodput=run.effective,
            time_between_failures=run.time_between_failures,
            time_per_save=60.0,
            fails_while_down=again,
        )
        / HOUR
        for again in (True, False)
    ]
    assert hours == pytest.approx([7.5, 9.9], abs=0.1)
    llama = interruptions.find_record(LLAMA)
    a_day = [r.failures / r.devices / r.seconds for r in (run, llama)]
    assert a_day[0] / a_day[1] == pytest.approx(3.66, abs=0.01)  # failures of one device
    assert run.manual / run.failures > 40 * llama.manual / llama.failures


def test_a_seed_is_a_run_and_another_is_another():
    given = {
        "seconds": 1e6,
        "time_between_saves": 1800.0,
        "time_per_save": 30.0,
        "time_between_failures": 2e4,
        "time_per_failure": 600.0,
    }
    first = interruptions.played_out(**given, seed=1)
    assert first.total == interruptions.played_out(**given, seed=1).total
    assert first.total != interruptions.played_out(**given, seed=2).total
    quiet = interruptions.played_out(**given | {"time_between_failures": 1e12})
    assert quiet.total == pytest.approx(quiet["compute"] * (1 + 30 / 1800))
