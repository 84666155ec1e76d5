"""Utilisation, time, energy and money: each formula undone by another, and the rules of thumb in
their place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import cost, flops, params

POSITIVE = st.floats(1e-3, 1e15)
FLOP = st.floats(1e12, 1e27)
RATE = st.floats(1e9, 1e16)
DEVICES = st.integers(1, 100_000)
DAY = 86400


@given(FLOP, DEVICES, RATE)
def test_time_and_rate_undo_each_other(flop, devices, rate):
    seconds = cost.training_time(flop=flop, devices=devices, achieved=rate)
    assert cost.achieved(flop=flop, seconds=seconds, devices=devices) == pytest.approx(rate)
    assert cost.utilization(
        flop=flop, seconds=seconds, devices=devices, peak=2 * rate
    ) == pytest.approx(0.5)
    assert cost.flop_done(
        devices=devices, seconds=seconds, peak=2 * rate, utilization=0.5
    ) == pytest.approx(flop)


@given(FLOP, st.floats(1e3, 1e8), RATE)
def test_no_fewer_devices_meet_the_deadline(flop, seconds, rate):
    n = cost.devices_for(flop=flop, seconds=seconds, achieved=rate)
    assert cost.training_time(flop=flop, devices=n, achieved=rate) <= seconds * (1 + 1e-12)
    assert n == 1 or cost.training_time(flop=flop, devices=n - 1, achieved=rate) > seconds * (
        1 - 1e-12
    )


@given(DEVICES, POSITIVE)
def test_hours_and_wall_time_undo_each_other(devices, seconds):
    hours = cost.device_hours(devices=devices, seconds=seconds)
    assert hours * cost.HOUR / devices == pytest.approx(seconds)
    assert cost.device_hours(devices=1, seconds=devices * seconds) == pytest.approx(
        hours
    )  # 1000 for 1 h, 1 for 1000 h


@given(DEVICES, st.floats(1, 1e7), st.floats(2e19, 1e22), st.booleans())
def test_mfu_is_6n_over_the_peak_as_far_as_6n_is_right(devices, tokens_per_second, peak, causal):
    given_ = {"tokens_per_second": tokens_per_second, "devices": devices, "peak": peak}
    mfu = cost.mfu("gpt3-175b", **given_, causal=causal)
    by_hand = 6 * 174.6e9 * tokens_per_second / (devices * peak)
    assert mfu == pytest.approx(by_hand, rel=0.03) and mfu > by_hand
    assert cost.mfu("gpt3-175b", **given_) >= mfu


@given(
    st.floats(1, 3e3),
    st.sampled_from(["gpt2", "llama3-8b", "gpt3-175b", "mixtral-8x7b"]),
    st.sampled_from([2, 2.5]),
)
def test_hardware_does_at_least_what_the_model_asks(tokens_per_second, name, attention_backward):
    given_ = {"tokens_per_second": tokens_per_second, "devices": 8, "peak": 989e12}
    mfu = cost.mfu(name, **given_)
    rising = [
        cost.hfu(name, **given_, recompute=r, attention_backward=attention_backward)
        for r in ("none", "selective", "full")
    ]
    assert mfu <= rising[0] < rising[1] < rising[2] <= mfu * 1.4
    if attention_backward == 2:
        assert rising[0] == pytest.approx(mfu)


def test_no_device_does_more_than_its_peak():
    given_ = {"flop": 312e12, "seconds": 1, "devices": 1}
    assert cost.utilization(**given_, peak=312e12) == 1
    with pytest.raises(
        InputError, match="utilization = 1000: expected at most 1; .* = 312 GFLOP/s"
    ):
        cost.utilization(**given_, peak=312e9)
    with pytest.raises(InputError, match="utilization = "):
        cost.mfu("gpt2", tokens_per_second=1e9, devices=1, peak=312e12)


def test_megatrons_52_percent_is_39_percent_mfu():
    """Narayanan et al. 2021, Table 1, print utilisation with full recomputation: three quarters of
    it is MFU.
    """
    rate = 163e12 / flops.per_token(
        "megatron-1008b", recompute="full"
    )  # tokens a second and device
    given_ = {"tokens_per_second": rate, "devices": 1, "peak": 312e12}
    hfu = cost.hfu("megatron-1008b", **given_, recompute="full")
    assert hfu == pytest.approx(163 / 312) and cost.mfu(
        "megatron-1008b", **given_
    ) / hfu == pytest.approx(0.75, abs=2e-3)


def test_throughput_of_steps_gives_the_utilisation_of_a_step():
    rate = cost.throughput(sequences=64, tokens=2048, seconds=13.75)
    mfu = cost.mfu("korthikanti-175b", tokens_per_second=rate, devices=64, peak=312e12)
    flop = flops.training("korthikanti-175b", sequences=64).total
    assert mfu == pytest.approx(cost.utilization(flop=flop, seconds=13.75, devices=64, peak=312e12))
    assert round(100 * mfu, 1) == 51.4


@pytest.mark.parametrize(
    ("name", "tokens", "devices", "rate"),
    [
        ("korthikanti-175b", 300e9, 1024, 140e12),
        ("megatron-1008b", 450e9, 3072, 163e12),
    ],
)
def test_the_8tp_shortcut_is_two_to_three_percent_short_of_counting(name, tokens, devices, rate):
    N = {"korthikanti-175b": 175e9, "megatron-1008b": 1008e9}[name]
    short = cost.shortcut_time(parameters=N, tokens=tokens, devices=devices, achieved=rate)
    counted = flops.run(name, total_tokens=tokens, recompute="full").total
    exact = cost.training_time(flop=counted, devices=devices, achieved=rate)
    assert 0.965 < short / exact < 0.99
    if name == "korthikanti-175b":
        assert (round(short / DAY, 1), round(exact / DAY, 1)) == (33.9, 34.7)


@pytest.mark.parametrize(
    ("name", "short"),
    [("megatron-1.7b", 0.116), ("megatron-39.1b", 0.038), ("megatron-1008b", 0.013)],
)
def test_what_the_8tp_shortcut_leaves_out_of_its_papers_own_models(name, short):
    """Equation 3 over 8TP, from the rows of Table 1."""
    full = flops.run(name, total_tokens=1e9, recompute="full").total
    assert full / (8e9 * params.count(name).total) - 1 == pytest.approx(short, abs=6e-4)


@given(st.floats(1, 1e8), st.floats(50, 1500), st.floats(1, 3), st.floats(0, 1), st.floats(0, 100))
def test_energy_co2_and_price_are_proportional(hours, watts, pue, intensity, rate):
    energy = cost.energy_kwh(device_hours=hours, watts=watts, pue=pue)
    assert energy == pytest.approx(
        cost.energy_kwh(device_hours=1000, watts=1, pue=1) * hours / 1000 * watts * pue
    )
    assert cost.energy_kwh(device_hours=1, watts=1000) == 1
    assert cost.co2_kg(energy_kwh=energy, kg_per_kwh=intensity) == pytest.approx(energy * intensity)
    assert cost.price(device_hours=hours, price_per_hour=rate) == pytest.approx(hours * rate)


def test_a_data_centre_draws_no_less_than_its_devices():
    with pytest.raises(cost.InputError, match="pue = 0.9: expected 1 or more"):
        cost.energy_kwh(device_hours=1, watts=400, pue=0.9)


def test_utilisation_is_a_share():
    with pytest.raises(cost.InputError, match=r"utilization = 45: expected a share .*0.4 for 40%"):
        cost.flop_done(devices=1, seconds=1, peak=1e12, utilization=45)


@given(st.floats(1, 1e9), st.floats(0.01, 2))
def test_an_intensity_and_its_co2_undo_each_other(energy, kg):
    emitted = cost.co2_kg(energy_kwh=energy, kg_per_kwh=kg)
    assert cost.intensity(co2=emitted, energy_kwh=energy) == pytest.approx(kg)


def test_the_cards_of_llama_3_and_3_1_mean_two_different_factors():
    """Device-hours, 700 W and tCO2eq as printed. Llama 3's are the factors of the LLaMA papers, 1.1
    and 0.385 kg a kWh; Llama 3.1's card, with no factor named, means 2.3% less for each kWh."""

    def factor(hours: float, tons: float) -> float:
        energy = cost.energy_kwh(device_hours=hours, watts=700)
        return cost.intensity(co2=1000 * tons, energy_kwh=energy)

    assert factor(6.4e6, 1900) == pytest.approx(1.1 * 0.385, rel=0.002)
    newer = [factor(30.84e6, 8930), factor(7.0e6, 2040), factor(1.46e6, 420)]
    assert newer == pytest.approx([factor(39.3e6, 11390)] * 3, rel=0.008)
    assert newer[0] / (1.1 * 0.385) == pytest.approx(0.977, abs=0.001)
