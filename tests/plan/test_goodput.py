"""Checkpoint arithmetic: Daly's published optima, and runs in which chance strikes."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.plan import goodput

MINUTE = 60.0


def test_a_sharded_checkpoint_is_written_by_all_ranks_at_once_up_to_the_storages_limit():
    given = {"payload": 14 * 70e9, "bandwidth": 2e9}
    assert goodput.write_time(**given, ranks=1) == pytest.approx(490)
    assert goodput.write_time(**given, ranks=64) == pytest.approx(490 / 64)
    limited = goodput.write_time(**given, ranks=64, storage_bandwidth=20e9)
    assert limited == pytest.approx(980 / 20)


@pytest.mark.parametrize(
    ("hours", "minutes", "half"), [(24, 117, 0.5), (6, 57, 0.5), (0.25, 9.1, 0.05)]
)
def test_dalys_optimum_is_the_papers(hours, minutes, half):
    """Captions of figures 3 to 5 of Daly (2006): saves of 5 minutes."""
    found = goodput.interval(
        time_per_save=5 * MINUTE, time_between_failures=hours * 60 * MINUTE, method="daly"
    )
    assert found / MINUTE == pytest.approx(minutes, abs=half)  # its last digit


def expected(between: float, **options) -> float:
    given = {"time_per_save": 300.0, "time_between_failures": 6 * 3600.0, "time_per_failure": 600.0}
    return goodput.time_for(seconds=1.0, time_between_saves=between, **given | options).total


@given(st.floats(0.001, 0.4))
def test_no_interval_wastes_less_than_dalys_and_youngs_is_near(share):
    """A save of this share of the time between failures."""
    times = {"time_per_save": share * 3600, "time_between_failures": 3600.0}
    daly = goodput.interval(**times, method="daly")
    best = expected(daly, **times)
    least = min(expected(daly * factor, **times) for factor in (0.5, 0.8, 0.9, 1.1, 1.25, 2))
    assert best <= least
    assert expected(goodput.interval(**times), **times) <= best * (1 + 0.5 * share)


def chance(
    seconds: float, between: float, save: float, failures: float, restart: float, behind=0.0
):
    """Seconds of a run, event by event; a save counts once it has been written."""
    draw = random.Random(0)
    clock = done = safe = 0.0
    next_failure = draw.expovariate(1 / failures)
    waiting: tuple[float, float] | None = None  # when the last save will be safe, and what it holds
    while done < seconds:
        end = clock + between + save
        if waiting and waiting[0] <= min(end, next_failure):
            safe, waiting = waiting[1], None
        if next_failure >= end:
            clock, done = end, done + between
            waiting = clock + behind, done
            continue
        clock, done, waiting = next_failure, safe, None
        next_failure += draw.expovariate(1 / failures)
        while next_failure < clock + restart:  # again, before training goes on
            clock = next_failure
            next_failure += draw.expovariate(1 / failures)
        clock += restart
    return clock / done


@pytest.mark.parametrize(
    ("between", "save", "behind"),
    [(3600, 300, 0), (1800, 300, 0), (7200, 30, 0), (3600, 10, 600), (3600, 10, 3600)],
)
def test_the_expected_time_is_that_of_runs_in_which_chance_strikes(between, save, behind):
    """Ten thousand failures and more: their mean is known to a hundredth."""
    found = chance(2e8, between, save, 6 * 3600.0, 600.0, behind)
    wanted = expected(between, time_per_save=save, time_behind=behind)
    assert found - 1 == pytest.approx(wanted - 1, rel=0.04)


def test_an_asynchronous_save_costs_its_copy_and_what_it_is_behind():
    synchronous = expected(3600)
    asynchronous = expected(3600, time_per_save=3.0, time_behind=300.0)
    assert asynchronous < synchronous < expected(3600, time_per_save=3.0, time_behind=3600.0) * 1.1
    assert expected(3600, time_per_save=3.0) < asynchronous


def test_without_failures_only_saving_takes_time():
    parts = goodput.time_for(
        seconds=1e5, time_between_saves=1e3, time_per_save=10.0, time_between_failures=1e12
    )
    assert parts.total == pytest.approx(1.01e5) and parts["saving"] == pytest.approx(1e3)
    assert parts["waiting after failures"] == pytest.approx(0, abs=1)


def test_where_no_run_would_end_that_is_said():
    with pytest.raises(InputError, match="time_between_failures"):
        expected(1e6, time_between_failures=1e3)
    with pytest.raises(InputError, match="one save is written at a time"):
        expected(100, time_behind=101.0)
    assert math.isfinite(expected(1e6, time_between_failures=1e5))
    assert goodput.interval(time_per_save=9.0, time_between_failures=4.0, method="daly") == 4.0
