"""Constants are found by name or refused, and say how far to trust them."""

from math import exp

import pytest

from mathlib.checks import InputError
from mathlib.plan.calibration import Rates, find_rates, interval, most_needed, out_of_memory
from mathlib.specs import table


def test_every_row_is_a_set_of_rates() -> None:
    rows = table("calibrations")
    for device in [name for name in rows["devices"] if name in table("devices")]:
        for program in rows["programs"]:
            assert 0 < find_rates(device, program).matmul <= 1


def test_a_device_without_runs_takes_the_common_row() -> None:
    assert find_rates("l40s") == find_rates("rtx-4090")
    assert find_rates("h100-sxm", precision="fp8").precision == "fp8"
    with pytest.raises(InputError, match="precision = 'fp4': no run on a100-80gb"):
        find_rates("a100-80gb", precision="fp4")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"matmul": 0}, "matmul = 0"),
        ({"again": 1.5}, "again = 1.5: expected a share, 0 to 1"),
        ({"hop": -1}, "hop = -1"),
        ({"fused": 1}, "fused = 1"),
        ({"precision": "int8"}, "precision = 'int8'"),
        ({"visit_bytes": 0}, "visit_bytes = 0"),
        ({"visit_nodes": 1.5}, "visit_nodes = 1.5"),
    ],
)
def test_rates_that_cannot_be_are_refused(changes: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        Rates(**changes)


def test_an_interval_is_a_multiple_of_the_prediction() -> None:
    one, two = interval(1.0, "composer"), interval(2.0, "composer")
    assert one.low < 1 < one.high and (two.low, two.high) == (2 * one.low, 2 * one.high)
    few = interval(1.0, "jax")
    assert few == interval(1.0, "deepspeed") and few.runs > one.runs


def test_a_device_that_no_run_tells_of_has_a_wider_interval() -> None:
    """As all runs would be off if nothing were known of their devices."""
    known, unseen = (interval(1.0, device=name) for name in ("h100-sxm", "mi250x"))
    assert known == interval(1.0) and unseen.runs > known.runs
    assert unseen.low <= known.low + 0.1 and unseen.high > 1.2 * known.high
    assert unseen == interval(1.0, "composer", device="l40s"), "whatever the program"
    with pytest.raises(InputError, match="device = 'h10'"):
        interval(1.0, device="h10")


def test_the_chance_grows_with_what_is_needed_and_is_even_at_what_is_typical() -> None:
    row = table("calibrations")["needs"]["nanotron"]
    typical = 80e9 / exp(row["typical"])
    assert out_of_memory(needed=typical, memory=80e9, program="nanotron") == pytest.approx(0.5)
    chances = [
        out_of_memory(needed=n * 1e9, memory=80e9, program="nanotron") for n in (1, 40, 60, 80, 500)
    ]
    assert chances == sorted(chances) and 0 < chances[0] < 0.03 and 0.97 < chances[-1] < 1
    few = out_of_memory(needed=70e9, memory=80e9, program="jax")
    assert few == out_of_memory(needed=70e9, memory=80e9, program="tpu")


@pytest.mark.parametrize("program", ["nanotron", "megatron-flash", "jax"])
@pytest.mark.parametrize("risk", [0.03, 0.1, 0.5, 0.9])
def test_the_most_that_may_be_needed_has_that_chance(program: str, risk: float) -> None:
    most = most_needed(memory=80e9, risk=risk, program=program)
    back = out_of_memory(needed=most, memory=80e9, program=program)
    assert back == pytest.approx(risk)


def test_no_chance_is_as_small_as_that_of_runs_that_go_wrong_anyway() -> None:
    with pytest.raises(InputError, match=r"risk = 0.01: expected between 0.02 and 0.98"):
        most_needed(memory=80e9, risk=0.01)
