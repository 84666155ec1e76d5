"""What stops runs: published ones, the slowest of many, spares, and chance played out."""

import heapq
import random

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


def test_kokolis_rate_gives_their_projection():
    """6.50 failures in 1000 node-days: 1.8 hours on 16,384 devices, 14 minutes on 131,072."""
    device = 8 * 1000 / 6.50 * DAY
    assert device / 16384 / HOUR == pytest.approx(1.8, abs=0.01)
    assert device / 131072 / 60 == pytest.approx(14, abs=0.5)


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


def test_the_slowest_of_many_is_what_tables_of_order_statistics_say():
    for n, expected in ((2, 0.5642), (10, 1.5388), (100, 2.5076), (1000, 3.2414)):
        found = interruptions.slowest(devices=n, spread=1.0) - 1
        assert found == pytest.approx(expected, rel=0.002)
    assert interruptions.slowest(devices=1, spread=0.3) == 1
    assert interruptions.slowest(devices=16384, spread=0.02) == pytest.approx(1.079, abs=0.001)


def test_the_slowest_of_drawn_ones_is_as_slow():
    draw = random.Random(3)
    found = [max(draw.gauss(1, 0.05) for _ in range(64)) for _ in range(2000)]
    mean = sum(found) / len(found)
    assert mean == pytest.approx(interruptions.slowest(devices=64, spread=0.05), abs=0.002)


def without_spare(devices: int, between: float, repair: float, spares: int) -> float:
    """Share of the failures that find no spare, each device failing by itself."""
    draw = random.Random(5)
    failing = [draw.expovariate(1 / between) for _ in range(devices)]
    heapq.heapify(failing)
    away: list[float] = []  # when each comes back
    short = 0
    for _ in range(20_000):
        now = heapq.heappop(failing)
        away = [back for back in away if back > now]
        short += len(away) >= spares
        away.append(now + repair)
        heapq.heappush(failing, now + draw.expovariate(1 / between))
    return short / 20_000


@pytest.mark.parametrize("spares", [1, 2, 4])
def test_the_chance_of_no_spare_is_that_of_runs(spares):
    given = {"devices": 256, "device_time_between_failures": 100 * DAY, "time_per_repair": DAY / 2}
    found = without_spare(256, 100 * DAY, DAY / 2, spares)
    wanted = interruptions.chance_of_waiting(**given, spares=spares)
    assert found == pytest.approx(wanted, abs=0.015)


def test_spares_are_as_many_as_needed():
    given = {"devices": 2048, "device_time_between_failures": 0.72 * YEAR, "time_per_repair": DAY}
    found = interruptions.spares_for(**given, chance=0.01)
    assert interruptions.chance_of_waiting(**given, spares=found) <= 0.01
    assert interruptions.chance_of_waiting(**given, spares=found - 1) > 0.01
    assert interruptions.chance_of_waiting(**given, spares=0) == 1
    with pytest.raises(InputError, match="under repair"):
        interruptions.spares_for(**given | {"time_per_repair": 1000 * DAY}, chance=0.01)


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
