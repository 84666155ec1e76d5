"""The bill of a job: flat in n when nothing but computing costs time, and each disturbance adds
exactly its own.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.plan import bill

JOB = {"flop": 1e20, "achieved": 1e14}


@given(st.integers(1, 10**6))
def test_with_perfect_scaling_1000_devices_cost_what_one_does(n):
    assert (
        bill.device_time(**JOB, devices=n).total == bill.device_time(**JOB, devices=1).total == 1e6
    )


@given(st.integers(1, 512), st.integers(1, 64))
def test_the_bubble_is_p_minus_1_over_m_of_the_computation(p, m):
    spent = bill.device_time(**JOB, devices=p, stages=p, micro_batches=m)
    assert spent["idle in the pipeline"] == pytest.approx((p - 1) / m * spent["compute"])


def test_communication_is_paid_by_all_devices_in_every_step():
    spent = bill.device_time(
        **JOB, devices=8, steps=10, gradient_bytes=1e9, bandwidth=1e9, latency=1e-3
    )
    assert spent["communication"] == pytest.approx(8 * 10 * (2 * 7 / 8 + 2 * 7 * 1e-3))


@pytest.mark.parametrize("behind", [0.25, 2 / 3, 1.0])
def test_an_exchange_hides_behind_its_share_of_a_step(behind):
    """A step computes 1e20 / 1e14 / (8 * 10) = 12,500 s on each device."""
    links = {"gradient_bytes": 1e13, "bandwidth": 1e9}
    given = JOB | links | {"devices": 8, "steps": 10}
    all_reduce = 2 * 7 / 8 * 1e4
    spent = bill.device_time(**given, behind=behind)
    exposed = max(0.0, all_reduce - behind * 12_500)
    assert spent["communication"] == pytest.approx(8 * 10 * exposed)
    with pytest.raises(InputError, match="behind = 1.5"):
        bill.device_time(**given, behind=1.5)


def test_a_failure_stops_everybody():
    once = bill.device_time(**JOB, devices=100, time_between_failures=1e6, time_per_failure=60.0)
    assert once["waiting after failures"] == pytest.approx(100 * 60)
    assert bill.device_time(**JOB, devices=200, time_between_failures=1e6, time_per_failure=60.0)[
        "waiting after failures"
    ] == pytest.approx(2 * 100 * 60)


def test_stages_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="stages = 3"):
        bill.device_time(**JOB, devices=8, stages=3)
