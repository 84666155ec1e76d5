"""Rented devices: what is paid beyond the training, and what being taken back is worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.plan import goodput, interruptions, rent

HOUR = 3600.0
JOB = {"device_hours": 1e5, "devices": 512, "time_per_save": 30.0, "time_per_failure": 900.0}
YEARS = 5 * 365.25 * 24 * HOUR


def test_both_kinds_of_stop_together_are_played_out():
    """Of failures and withdrawals by two clocks, the rate is the sum."""
    both = rent.either(device_time_between_failures=300.0, device_time_between_withdrawals=600.0)
    assert both == pytest.approx(200)


def test_what_is_paid_is_the_training_and_what_stops_cost():
    quiet = rent.paid(**JOB, device_time_between_failures=1e15)
    assert quiet.total == pytest.approx(1e5 * HOUR, rel=1e-3)
    spot = rent.paid(
        **JOB, device_time_between_failures=YEARS, device_time_between_withdrawals=YEARS / 30
    )
    assert spot["compute"] == pytest.approx(1e5 * HOUR)
    run = interruptions.played_out(
        seconds=5e7,
        time_between_saves=goodput.best_interval(
            time_per_save=30.0, time_between_failures=YEARS / 31 / 512
        ),
        time_per_save=30.0,
        time_between_failures=YEARS / 31 / 512,
        time_per_failure=900.0,
    )
    assert spot.total / spot["compute"] == pytest.approx(run.total / run["compute"], rel=0.01)


@given(st.floats(0.1, 10), st.floats(1e6, 1e9))
def test_at_the_even_price_both_bills_are_the_same(price, withdrawals):
    reserved = rent.paid(**JOB, device_time_between_failures=YEARS)
    spot = rent.paid(
        **JOB,
        device_time_between_failures=YEARS,
        device_time_between_withdrawals=withdrawals,
    )
    even = rent.even_price(
        price_per_hour=price,
        goodput=reserved.share("compute"),
        goodput_with_withdrawals=spot.share("compute"),
    )
    assert even * spot.total == pytest.approx(price * reserved.total)
    assert even < price


@pytest.mark.parametrize("name", specs.table("prices"))
def test_a_price_says_whose_it_is_where_it_stands_and_when_it_was_read(name):
    one = rent.find_price(name)
    assert one.title != name and len(one.source) > 20 and one.date.count("-") == 2
    assert one.modes["on demand"] == one.on_demand
    assert all(0.1 < paid <= one.on_demand for paid in one.modes.values()), "by the hour is dearest"


def test_spot_and_reserved_are_there_beside_each_other():
    both = [rent.find_price(name) for name in specs.table("prices")]
    assert sum("spot" in one.modes for one in both) >= 3
    assert sum("reserved" in one.modes for one in both) >= 3
    dearer = [one for one in both if one.spot > one.reserved > 0]
    assert dearer, "a list on which spot never pays against a contract"
    for one in dearer:
        asked = {"price_per_hour": one.reserved, "spot_price_per_hour": one.spot}
        assert rent.even_goodput(**asked) > 1


@given(st.floats(0.1, 10), st.floats(0.05, 1))
def test_an_even_goodput_is_an_even_price_the_other_way_round(price, kept):
    spot = rent.even_price(price_per_hour=price, goodput=1.0, goodput_with_withdrawals=kept)
    assert rent.even_goodput(price_per_hour=price, spot_price_per_hour=spot) == pytest.approx(kept)


def test_a_price_of_nothing_is_refused():
    with pytest.raises(InputError, match="device = 'gpu'"):
        rent.Price("mine", "gpu", 1.0)
    with pytest.raises(InputError, match="on_demand = 0"):
        rent.Price("mine", "h100-sxm", 0)
    with pytest.raises(InputError, match="name = 'hyper'"):
        rent.find_price("hyper")
