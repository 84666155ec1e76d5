"""Where six breaks and what a run takes: the numbers are the library's, and so is the verdict."""

import re

import pytest
from charts import boxes, drawn, outside, said

from mathlib import specs
from mathlib.compute import cost, flops, params, reported
from mathlib.explore import compute
from mathlib.show.experiments import find


def shown(name, **values):
    return find(name).run(values)


def test_the_parts_add_up_to_what_a_token_costs():
    model = specs.Model("m", layers=16, width=1024, heads=1, vocab=65536, context=1024)
    forward = flops.forward(model)
    counted = [name for inside in compute.PARTS.values() for name in inside]
    left = set(forward) - set(counted)
    assert sum(forward.amount(name) for name in left) == 0, "a lookup costs nothing"
    whole = sum(forward.amount(name) for name in counted)
    assert 3 * whole / 1024 == pytest.approx(flops.per_token(model))


def test_six_is_judged_against_the_count():
    model = specs.Model("m", layers=16, width=1024, heads=1, vocab=65536, context=1024)
    ratio = flops.per_token(model) / (6 * params.total(model))
    assert round(100 * (ratio - 1), 1) == 12.0 and "<b>12% more than the rule</b>" in shown("six")
    assert compute._against_the_rule(1.0004) == "exactly"
    assert compute._against_the_rule(0.9) == "10% less than"
    assert compute._against_the_rule(12.258) == "1,130% more than", "three digits"


def test_the_two_bars_stand_to_each_other_as_the_ratio():
    chart = drawn(shown("six"))
    wide = {"The formula, by part": 0.0, "The rule, 6P": 0.0}
    for hint, (_, _, width, _) in boxes(chart).items():
        wide[next(name for name in wide if hint.startswith(name))] += width
    ratio = wide["The formula, by part"] / wide["The rule, 6P"]
    assert ratio == pytest.approx(1.12, abs=0.003)


@pytest.mark.parametrize("causal", [True, False])
def test_the_law_beneath_holds_for_every_shape(causal):
    """equation() refuses numbers that do not satisfy it, so a result is the proof."""
    for layers, width, context in ((2, 256, 65536), (128, 16384, 256)):
        html = shown("six", layers=layers, width=width, context=context, causal=causal)
        assert "<math" in html and "Not possible" not in html


def test_a_bill_is_work_over_rate_times_price():
    run = compute.bill("gpt3-175b", 300e9, "a100-80gb", 1024, 0.5, 2.0)
    chip = specs.find_device("a100-80gb")
    assert run["flop"] == flops.run("gpt3-175b", total_tokens=300e9).total
    assert run["seconds"] == pytest.approx(run["flop"] / (1024 * 0.5 * chip.half))
    assert run["price"] == pytest.approx(2 * 1024 * run["seconds"] / 3600)
    assert run["kWh"] == cost.energy_kwh(device_hours=run["hours"], watts=chip.power)


def test_twice_the_devices_is_half_the_time_and_the_same_price():
    one, two = (shown("cost", devices=n) for n in (1024, 2048))
    price = re.compile(r"<b>(\$[\d,]+)</b>")
    assert price.findall(one) == price.findall(two) == ["$1,280,000"]
    assert "<b>26 days</b>" in one and "<b>13 days</b>" in two
    assert "on 1 device:" in shown("cost", devices=1) and "on 1,024 devices:" in one


def test_the_choice_lies_between_the_lowest_and_the_highest_reported_rate():
    chart = drawn(shown("cost"))
    assert "MFU 10.6%: 113,000 at 1, 1.72 at 65,536" in said(chart), "45/10.6 of 26,600 device-days"
    assert "your choice: 26 at 1,024" in said(chart)
    assert not outside(chart)


def test_the_reported_rates_are_those_of_the_table():
    found = [reported.utilizations(reported.find_run(name))["mfu"] for name in reported.names()]
    known = [100 * mfu for mfu in found if mfu]
    assert (round(min(known), 1), round(max(known), 1)) == compute.REPORTED


@pytest.mark.parametrize(("devices", "days"), [(1, "26,600 at 1"), (65536, "0.406 at 65,536")])
def test_the_choice_stands_between_the_lines_at_both_ends_of_the_control(devices, days):
    chart = drawn(shown("cost", devices=devices))
    assert f"your choice: {days}" in said(chart) and not outside(chart)
