"""The matmuls of a layer, and a model's boxes: all that the formulas count, and no more."""

import pytest
from charts import boxes, drawn, said, words

from mathlib.checks import InputError
from mathlib.compute import flops, params
from mathlib.plan import bill
from mathlib.show.schemes import compute


def test_three_matmuls_of_one_size():
    written = words(drawn(compute.linear_layer()))
    assert written.count("2 r i o") == 3 and "4 r i o" in written
    assert {"A", "W", "Y", "Wᵀ", "Aᵀ", "dA", "dW"} <= set(written)


@pytest.mark.parametrize("model", ["gpt2", "llama3-8b", "deepseek-v3"])
@pytest.mark.parametrize(("of", "formula"), [("flop", flops.forward), ("parameters", params.count)])
def test_the_boxes_hold_everything(model, of, formula):
    whole = formula(model)
    assert sum(size for _, size, _ in compute._boxes(whole)) == whole.total


def test_the_fullest_box_is_named_and_the_longest():
    shown = compute.block("gpt2")
    assert "most of it in LM head (27%)" in repr(shown)
    assert said(drawn(shown)).startswith("embedding: 0 FLOP. query: 14.2 MFLOP")


def test_shorter_sequences_have_cheaper_scores():
    long, short = (said(drawn(compute.block("gpt2", tokens=n))) for n in (1024, 128))
    assert "attention scores: 18.9 MFLOP" in long and "attention scores: 2.36 MFLOP" in short


def test_experts_stay_whole():
    names = [name for name, *_ in compute._boxes(flops.forward("deepseek-v3"))]
    assert "experts" in names and "gate" not in names and "query up" in names


def test_another_quantity_is_refused():
    with pytest.raises(InputError, match="of = 'bytes'"):
        compute.block("gpt2", of="bytes")


def test_there_are_no_bars_without_an_amount():
    assert len(boxes(drawn(compute.block("gpt2")))) == 0, "boxes tell their amount in words"


def test_what_was_executed_and_what_was_needed():
    shown = compute.utilisation("Megatron 1008B")
    assert "they did 52%; the model needed 39%" in repr(shown)
    assert "recompute 13%" in said(drawn(shown))
    with pytest.raises(InputError, match="run = 'OPT-175B'"):
        compute.utilisation("OPT-175B")


def test_output_stands_behind_the_core_that_feeds_it():
    told = said(drawn(compute.block("gpt2")))
    order = [told.index(name) for name in ("value", "attention values", "output", "up")]
    assert order == sorted(order)


def test_boxes_that_read_the_same_input_stand_together():
    groups = compute._together(compute._boxes(flops.forward("llama3-8b")))
    names = [[name for name, *_ in group] for group in groups]
    assert ["query", "key", "value"] in names and ["gate", "up"] in names and ["down"] in names
    alone = compute._together([("attention scores", 1, ""), ("attention values", 1, "")])
    assert len(alone) == 2


def test_hours_go_into_parts():
    parts = bill.device_time(flop=3.6e18, achieved=1e15, devices=16, stages=8, micro_batches=7)
    shown = compute.hours({"sixteen": parts.scaled(1 / 3600)}, title="Device-hours")
    assert "sixteen pays most: 2 hours" in repr(shown)
    assert "compute 1, idle in the pipeline 1" in said(drawn(shown))
