"""Checkpoint arithmetic: Daly's published optima, and runs in which chance strikes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.plan import goodput, interruptions

MINUTE = 60
DAY = 86400.0


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


def expected(between: float, safe: bool = False, **options) -> float:
    law = goodput.time_if_waits_are_safe if safe else goodput.time_for
    given = {"time_per_save": 300.0, "time_between_failures": 6 * 3600.0, "time_per_failure": 600.0}
    return law(seconds=1.0, time_between_saves=between, **given | options).total


@given(st.floats(0.001, 0.4))
def test_no_interval_wastes_less_than_dalys_and_youngs_is_near(share):
    """A save of this share of the time between failures."""
    times = {"time_per_save": share * 3600, "time_between_failures": 3600.0}
    daly = goodput.interval(**times, method="daly")
    best = expected(daly, **times)
    least = min(expected(daly * factor, **times) for factor in (0.5, 0.8, 0.9, 1.1, 1.25, 2))
    assert best <= least
    assert expected(goodput.interval(**times), **times) <= best * (1 + 0.5 * share)


@pytest.mark.parametrize(
    ("between", "save", "behind"),
    [(3600, 300, 0), (1800, 300, 0), (7200, 30, 0), (3600, 10, 600), (3600, 10, 3600)],
)
def test_the_expected_time_is_that_of_runs_in_which_chance_strikes(between, save, behind):
    """Ten thousand failures and more: their mean is known to a hundredth."""
    for again in (True, False):
        given = {"time_per_save": save, "time_behind": behind}
        run = interruptions.played_out(
            seconds=2e8,
            time_between_saves=between,
            time_between_failures=6 * 3600.0,
            time_per_failure=600.0,
            fails_while_down=again,
            **given,
        )
        wanted = expected(between, safe=not again, **given)
        assert run.total / run["compute"] - 1 == pytest.approx(wanted - 1, rel=0.04)


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


def test_a_run_is_checked_once_and_its_parts_are_what_passed():
    run = goodput.Interrupted(1e5, 1e3, 10, 1e12, time_behind=1000)
    parts = run.parts("a run", trained=2e5, passed=2.5e5)
    assert dict(parts) == {"compute": 2e5, "saving": 2e3, "waiting after failures": 4.8e4}
    with pytest.raises(InputError, match="time_per_save = -1"):
        goodput.Interrupted(1e5, 1e3, -1, 1e12)
    for law in (goodput.time_for, interruptions.played_out):  # both are of such a run
        given = {"seconds": 1e5, "time_per_save": 1.0, "time_between_failures": 1e3}
        with pytest.raises(InputError, match="one save is written at a time"):
            law(**given, time_between_saves=100.0, time_behind=101.0)
        with pytest.raises(InputError, match="expected more than a hundredth"):
            law(**given, time_between_saves=1e6)


@given(st.floats(1e-4, 5))
def test_no_interval_wastes_less_than_the_exact_one(share):
    times = {"time_per_save": share * 3600, "time_between_failures": 3600.0}
    exact = goodput.best_interval(**times)
    best = expected(exact, **times)
    for other in (exact * 0.9, exact * 1.1, goodput.interval(**times, method="daly")):
        assert best <= expected(other, **times) * (1 + 1e-9)


def test_dalys_series_is_within_a_thousandth_where_saves_are_short():
    for save in (1.0, 60.0, 300.0):
        times = {"time_per_save": save, "time_between_failures": 6 * 3600.0}
        found = goodput.interval(**times, method="daly")
        assert found == pytest.approx(goodput.best_interval(**times), rel=1e-3)
    assert goodput.interval(**times) / goodput.best_interval(**times) > 1.05


@pytest.mark.parametrize("again", [True, False])
def test_a_job_too_long_for_repairs_has_another_law_when_what_waits_does_not_break(again):
    """Repairs as long as the time between failures: the two closed forms are far apart, and each is
    its own run's."""
    given = {
        "time_between_saves": 1800.0,
        "time_per_save": 60.0,
        "time_between_failures": 20_000.0,
        "time_per_failure": 20_000.0,
    }
    run = interruptions.played_out(seconds=2e8, fails_while_down=again, **given)
    laws = {True: goodput.time_for, False: goodput.time_if_waits_are_safe}
    wanted, other = (laws[which](seconds=1.0, **given).total for which in (again, not again))
    assert run.total / run["compute"] == pytest.approx(wanted, rel=0.03)
    assert abs(wanted / other - 1) > 0.2


RATES = {"device_time_between_failures": 5e7, "time_per_save": 30.0, "time_per_failure": 600.0}


def test_shares_are_of_one_second_and_fall_with_the_devices():
    few, many = (goodput.shares(devices=n, **RATES) for n in (64, 4096))
    assert few.total == pytest.approx(1) and many.total == pytest.approx(1)
    assert many["compute"] < few["compute"] < 1
    fixed = goodput.shares(devices=4096, time_between_saves=600.0, **RATES)
    assert fixed["compute"] < many["compute"]


def test_a_printed_share_and_its_repairs_undo_each_other():
    for again in (True, False):
        found = goodput.repair_for(
            goodput=0.8,
            time_between_failures=2e4,
            time_per_save=30.0,
            fails_while_down=again,
        )
        back = goodput.shares(
            devices=1,
            device_time_between_failures=2e4,
            time_per_save=30.0,
            time_per_failure=found,
            fails_while_down=again,
        )
        assert back["compute"] == pytest.approx(0.8)
    with pytest.raises(InputError, match="goodput = 0.99: expected at most"):
        goodput.repair_for(goodput=0.99, time_between_failures=2e4, time_per_save=300.0)


def time_on_twice(days: float, repair: float, again: bool, save: float = 60.0) -> float:
    """Time on twice the devices over the time on 64, where twice as many fail every `days`."""
    return goodput.time_on_more(
        devices=64,
        factor=2,
        device_time_between_failures=128 * days * DAY,
        time_per_save=save,
        time_per_failure=repair * DAY,
        fails_while_down=again,
    )


@given(st.floats(0.05, 30), st.floats(1e-6, 100))
def test_what_waits_and_does_not_break_makes_more_devices_slower_by_no_more_than_saves(
    days, repair
):
    """Each failure then costs its repair once and the work is halved: at most the old time, and
    what saving more often takes.
    """
    saves = math.sqrt(2 / (days * DAY))
    assert time_on_twice(days, repair=repair, again=False, save=1.0) < 1 + saves


def test_more_devices_are_slower_when_no_save_ends_between_failures():
    """The other way to lose: failures every 10 minutes, saves of 15 minutes."""
    assert time_on_twice(600 / DAY, repair=1e-6, again=False, save=900.0) > 1.1
