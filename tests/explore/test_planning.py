"""From GPUs and days to a model: the sentence is the formulas'. What saves cost."""

import re

import pytest

from mathlib.compute import cost, params
from mathlib.explore import planning as explored
from mathlib.plan import goodput
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.specs import find_device

DEADLINE = find("deadline")


def test_the_days_add_up() -> None:
    for devices, failures in ((8, 16000), (64, 2000), (16384, 2000), (16384, 125)):
        time = explored.spent(devices, 30, failures, 15)
        assert time.total == pytest.approx(30 * explored.DAY)
        assert all(part > 0 for part in (time.amount(name) for name in time))


def test_more_failures_train_less() -> None:
    trained = [explored.spent(16384, 30, f, 15).amount("compute") for f in (8000, 2000, 500)]
    assert trained == sorted(trained, reverse=True)


def test_the_sentence_is_the_budget() -> None:
    seconds = explored.spent(64, 30, 2000, 15).amount("compute")
    peak = find_device("a100-80gb").half
    C = cost.flop_done(devices=64, seconds=seconds, peak=peak, utilization=0.5)
    shown = DEADLINE.run({})
    assert f"{(C / 120) ** 0.5 / 1e9:.3g}B parameters" in shown
    assert "$92,160" in shown and "every 31.2 days" in shown


def test_four_times_the_cards_make_twice_the_model() -> None:
    one, four = (explored.spent(n, 30, 16000, 5).amount("compute") * n for n in (64, 256))
    assert (four / one) ** 0.5 == pytest.approx(2, rel=0.01)


def test_a_checkpoint_is_twelve_bytes_a_parameter():
    html = find("checkpoints").run({"model": "gpt-neox-20b", "devices": 64})
    P = params.count("gpt-neox-20b").total
    save = goodput.write_time(payload=12 * P, ranks=64, bandwidth=1e9, storage_bandwidth=10e9)
    assert save == pytest.approx(24.67, rel=1e-3)
    assert f"A checkpoint of {says.size(12 * P)} takes {says.time(save)}" in html


def test_the_best_interval_loses_no_more_than_another():
    for minutes in (1, 32, 512):
        html = find("checkpoints").run({"minutes": minutes})
        here, ideal = (
            float(share) for share in re.findall(r"([\d.]+)%(?= of the time|\.</p>)", html)
        )
        assert ideal <= here
