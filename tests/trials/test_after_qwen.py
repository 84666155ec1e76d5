"""Qwen's runs with adapters beside formula and planner, and the constants that rest on them."""

import sys
from math import log
from pathlib import Path

import pytest

from mathlib import specs
from mathlib.compute import params
from mathlib.explore import after
from mathlib.plan import adapted
from mathlib.trials import after_published as team
from mathlib.trials import after_qwen as qwen

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import memory_needs

ROWS = specs.table("calibrations")


def test_shapes_have_the_published_parameters():
    for size, published in zip(
        qwen.SIZES, (1836828672, 7721324544, 14167290880, 72287920128), strict=True
    ):
        m = qwen.shape(size)
        assert params.total(m) + m.layers * 3 * m.width == published


def test_a_logit_takes_half_to_four_thirds_of_twelve_bytes_and_qlora_takes_less():
    lora, packed = qwen.beside("LoRA"), qwen.beside("QLoRA")
    assert [row[3] for row in lora] == ["11.6", "12.1", "15.5", "6.5"]
    assert all(float(four[3]) < float(one[3]) for one, four in zip(lora, packed, strict=True))
    most = max(float(row[2]) for row in lora + packed)
    assert most * 1e9 < team.RESERVE == after.RESERVE
    assert qwen.PAIR * 1e9 < 2 * team.CARD.room < qwen.PAIR * 2**30, "so G is no GiB"


def test_lora_of_a_small_model_takes_a_seventh_to_a_half_of_full_tuning():
    least, most = qwen.of_full()
    assert 0.15 < least < 0.16 and 0.44 < most < 0.46


def test_of_7b_the_slope_is_twelve_bytes_a_logit_and_the_level_is_above():
    ours, printed = qwen.logit_bytes("LoRA")
    assert ours == pytest.approx(12) and printed == pytest.approx(12, rel=0.01)
    line = qwen.memory("LoRA")
    above = [p - f for f, p in zip(*line, strict=True)]
    assert min(above) > 1.2 and max(above) < 3.2
    assert qwen.logit_bytes("QLoRA")[1] == pytest.approx(8.5, rel=0.01)
    packed = qwen.memory("QLoRA")
    assert packed.printed[0] == packed.printed[1] and packed.formula[-1] > packed.printed[-1]


def test_a_gpu_of_the_largest_model_needs_what_the_formula_says_and_at_most_7_gb_more():
    every = qwen.every()
    assert len(every) == 8
    for line in every.values():
        more = [p - f for f, p in zip(*line, strict=True)]
        assert min(more) > -5 and max(more) < 7
    assert every["72B, LoRA, ZeRO-3 on 4"].ratios[-1] == pytest.approx(1, abs=0.01)


def test_a_step_takes_what_the_planner_says_though_no_constant_was_fitted_to_lora():
    """From 1,024 tokens on within a tenth, four sequences of the devices in shards a third."""
    for name, line in qwen.every(qwen.time).items():
        ratios = line.ratios[qwen.STEEP :]
        if "QLoRA" in name:
            assert all(0.75 < one < 1.11 for one in ratios), name
        elif "ZeRO" not in name:
            assert all(0.9 < one < 1.11 for one in ratios), name
        else:
            assert all(0.9 < one < 1.4 for one in ratios), name


def test_unpacking_takes_as_long_as_in_the_published_runs(monkeypatch):
    def off(times):
        monkeypatch.setattr(adapted, "table", lambda _: {"unpack": {"times": times}})
        lines = [qwen.time("QLoRA", size) for size in qwen.SIZES]
        return sum(abs(log(one)) for line in lines for one in line.ratios)

    kept = ROWS["unpack"]["times"]
    found = {times: off(times) for times in range(1, 13)}
    assert min(found, key=found.__getitem__) == kept and found[1] > 4 * found[kept]


def test_what_runs_need_beyond_the_formula_is_fitted_to_all_of_them():
    told = [("measured", one) for one in qwen.beyond()]
    assert memory_needs.likeliest(told) == ROWS["needs"]["adapters"]
