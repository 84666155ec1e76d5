"""Constants are found by name or refused, and say how far to trust them."""

from math import exp

import pytest

from mathlib.checks import InputError
from mathlib.plan.calibration import (
    Rates,
    find_rates,
    interval,
    most_needed,
    out_of_memory,
    reach,
)
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
    one, two = (interval(T, device="h100-sxm") for T in (1.0, 2.0))
    assert one.low < 1 < one.high and (two.low, two.high) == (2 * one.low, 2 * one.high)


def test_a_device_that_no_run_tells_of_has_no_narrower_interval() -> None:
    """As all runs would be off if nothing were known of their devices."""
    known, unseen = (interval(1.0, device=name) for name in ("h100-sxm", "mi250x"))
    assert unseen.runs >= known.runs and unseen.sources >= known.sources > 20
    assert unseen.low <= known.low and unseen.high > 1.05 * known.high
    assert unseen == interval(1.0, device=None), "one's own"


def test_no_interval_begins_before_what_the_device_can_do() -> None:
    free, bound = (interval(1.0, device="h100-sxm", least=T) for T in (0.0, 0.9))
    assert free.low < bound.low == 0.9 and free.high == bound.high
    assert interval(1.0, device="h100-sxm", least=1.1).low == 1.0, "as predicted at most"


def test_what_a_device_reaches_is_what_its_runs_did() -> None:
    rows = table("calibrations")["devices"]
    assert reach("a100-80gb") == rows["a100-80gb"]["matmul"]
    assert reach("h100-sxm", precision="fp8") == rows["h100-sxm"]["matmul_fp8"]
    assert reach("mi250x") == reach(None) == max(row["matmul"] for row in rows.values())
    with pytest.raises(InputError, match="precision = 'int8'"):
        reach("h100-sxm", precision="int8")


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
