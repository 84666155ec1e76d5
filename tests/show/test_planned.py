"""A plan's table, pictures, formulas and files are of the row that is chosen."""

import json
import re
import shlex
from dataclasses import replace
from html import unescape

import pytest

from mathlib import specs
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.room import find_keeps
from mathlib.show import planned, says
from mathlib.specs import Layout

NODES = specs.find_cluster("dgx-h100")


def plan(program="megatron-core", precision="half"):
    rates = find_rates(NODES.device, program, precision=precision)
    on = step.machine("llama3-8b", NODES, rates, tokens=4096)
    found = planner.search(on, devices=8, sequences=64, program=program, most=3)
    room = on.filled(None, find_keeps(program))
    return planned.Plan(on, room, program, found, tuple(found.choices))


def test_words_leave_out_what_is_one_or_off():
    assert planned.words(Layout()) == "one device"
    lay = Layout(data=8, tensor=2, zero=3, shard=4, recompute="full", sequence_parallel=True)
    assert planned.words(lay, "states") == (
        "tensor 2, data 8, ZeRO 3, over 4 ranks, recompute full, states on the host"
    )


def test_a_row_has_the_chance_of_running_out_of_memory_and_the_peak_that_counts():
    for one, peak in ((plan(), ""), (plan(precision="fp8"), " of fp8 peak")):
        html = planned.rows_table(replace(one, n=2))
        assert f">MFU{peak}<" in html and ">OOM<" in html and "OOM: the chance of" in html
        assert html.count('aria-current="true"') == 1
        assert '<tr data-set="row 2" aria-current="true">' in html
        for choice in one.rows:
            share = step.utilization(one.on, choice.layout)
            assert planned.mfu(one.on, choice) == f"{share:.0%}" and f">{share:.0%}<" in html
            assert f">{choice.risk:.0%}<" in html
    half, quick = (step.utilization(one.on, Layout()) for one in (plan(), plan(precision="fp8")))
    assert quick < half, "a share of twice the peak"


@pytest.mark.parametrize("program", ["megatron-core", "megatron-flash-norms", "fsdp"])
def test_the_parts_of_a_row_add_up_to_what_its_program_keeps(program):
    one = replace(plan(program), n=3)
    told = planned.record(one)
    assert told["program"] == program and told["recipe"] == find_keeps(program).recipe
    assert sum(told["bytes"].values()) == pytest.approx(one.rows[2].memory, rel=1e-5)
    assert sum(told["seconds"].values()) == pytest.approx(one.rows[2].seconds, rel=1e-5)
    assert f"{says.size(one.rows[2].memory)} (" in planned.pictures(one)
    laws = planned.formulas(one)
    assert laws.count('class="mlx-law"') == laws.count('class="mlx-equation"') > 6


def test_the_launch_line_is_of_the_program_whose_flags_it_has():
    html = planned.files(plan(precision="fp8"))
    line = unescape(re.findall(r'data-file="plan.sh".*?<code>(.*?)</code>', html, re.DOTALL)[0])
    words = shlex.split(line, comments=True)
    assert words[words.index("--fp8-format") + 1] == "hybrid"
    others = planned.files(plan("fsdp"))
    assert "plan.sh" not in others and "plan.json" in others
    text = re.findall(r'data-file="plan.json".*?<code>(.*?)</code>', others, re.DOTALL)[0]
    assert json.loads(unescape(text))["precision"] == "half"
