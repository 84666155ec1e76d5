"""The shard explorer and the step on two clocks: what is drawn is what the formulas say."""

import pytest
from charts import SPACE, boxes, drawn, outside

from mathlib.explore.zero import _grouped
from mathlib.memory import zero_rank
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.specs import Layout
from mathlib.traffic import volumes


def test_the_bars_are_those_of_the_formulas():
    html = find("shards").run({"model": "llama2-7b", "ranks": 64, "micro_batches": 4})
    for stage in range(4):
        layout = Layout(data=64, zero=stage, micro_batches=4, recompute="full")
        peak = zero_rank.peak("llama2-7b", layout, scatter="reduce-scatter").total
        assert says.html(says.size(peak)) in says.html(html)
        sent = volumes.zero(parameters=6.738e9, data=64, stage=stage, micro_batches=4)
        assert says.size(sent.total) in html.replace("\u00a0", " ")
    assert not outside(drawn(html))


def test_the_first_stage_that_fits_is_named_with_its_price():
    html = find("shards").run({"model": "llama2-7b", "ranks": 64, "micro_batches": 1})
    assert "<b>Stage 1</b> is the first that fits" in html and "1.00 times" in html
    html = find("shards").run({"model": "llama2-13b", "device": "v100-16gb", "micro_batches": 4})
    assert "<b>Stage 3</b> is the first that fits" in html and "6.00 times" in html


def test_nothing_fits_where_the_states_are_not_what_is_too_much():
    html = find("shards").run({"model": "llama2-70b", "ranks": 1})
    assert "No stage fits" in html


def test_the_groups_of_a_bar_are_all_that_is_alive():
    layout = Layout(data=64, zero=3, recompute="full")
    parts = zero_rank.peak("llama2-7b", layout, scatter="reduce-scatter")
    assert _grouped(parts).total == pytest.approx(parts.total, rel=1e-12)


def test_nothing_hidden_is_not_less_than_nothing():
    html = find("sharded-step").run({"prefetch": False, "tokens": 32768, "gigabits": 3200})
    assert " 0% of the communication" in html and "-0%" not in html


def test_without_prefetch_the_rank_waits_longer():
    with_it, without = (find("sharded-step").run({"prefetch": way}) for way in (True, False))
    assert "97% of the communication is hidden" in with_it
    assert "hidden" in without and "97%" not in without


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_every_message_of_a_step_is_drawn(stage):
    html = find("sharded-step").run({"stage": stage, "tokens": 8192})
    chart = drawn(html)
    wide = [hint for hint in boxes(chart) if hint.startswith("wire, ")]
    (label,) = [text for text in chart.iter(f"{SPACE}text") if text.text == "wire"]
    lane = f" {float(label.get('y')) - 17:g}h"  # the top of its boxes
    slim = "".join(path.get("d") for path in chart.iter(f"{SPACE}path") if path.get("fill"))
    assert len(wide) + slim.count(lane) >= {1: 2, 2: 64, 3: 96}[stage]
    assert not outside(drawn(html))
