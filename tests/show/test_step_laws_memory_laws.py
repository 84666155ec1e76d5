"""Every part of a planned layout's memory has a formula that gives it."""

import pytest

from mathlib import specs
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import host_of
from mathlib.plan.room import find_keeps
from mathlib.plan.work import OFFLOAD
from mathlib.show import step_laws

RECIPE = "mixed-adam-fp32-gradients"


@pytest.mark.parametrize(
    ("model", "devices", "program"),
    [
        ("llama3-8b", 64, "megatron-core"),
        ("mixtral-8x7b", 64, "megatron-core"),
        ("qwen2.5-32b", 128, "megatron-core"),
        ("llama3-8b", 64, "megatron-flash-norms"),
    ],
)
def test_every_part_has_a_formula_that_holds(model, devices, program):
    nodes = specs.find_cluster("dgx-h100")
    on = step.machine(model, nodes, find_rates(nodes.device, program), tokens=4096)
    room = on.filled(None, find_keeps(program))
    found = planner.search(on, devices=devices, sequences=256, program=program)
    layouts = {one.layout for axis in found.best_with.values() for one in axis.values()}
    assert {lay.zero for lay in layouts} == {0, 1, 2, 3} or model != "llama3-8b"
    for layout in layouts:
        laws = step_laws.memory(room, layout)
        assert all(one.formula and one.words for one in laws), layout
        assert sum(one.amount for one in laws) == pytest.approx(room.total(layout))
        parts = step_laws.parts(room, layout)
        assert [(one.name, one.amount) for one in laws] == list(parts.items())


def test_what_waits_on_the_host_is_left_out_of_the_formulas():
    nodes = specs.find_cluster("dgx-a100")
    told = {"tokens": 8192, "host": host_of(nodes)}
    on = step.machine("llama3-70b", nodes, find_rates(nodes.device), **told)
    found = planner.search(on, devices=8, sequences=16, recipe=RECIPE)
    room = on.filled(RECIPE)
    every = [one for axis in found.best_with.values() for one in axis.values()]
    assert {one.offload for one in every} >= {"states", "both"}
    for one in every:
        for offload in OFFLOAD:
            laws = step_laws.memory(room, one.layout, offload)
            assert all(law.formula and law.words for law in laws), (one.layout, offload)
            needed = sum(room.parts(one.layout, OFFLOAD[offload]))
            assert sum(law.amount for law in laws) == pytest.approx(needed)
        here, away = (step_laws.parts(room, one.layout, x) for x in ("none", "states"))
        assert away["model states"] < here["model states"]
