"""Rented devices: what is paid beyond the training, and what being taken back is worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
