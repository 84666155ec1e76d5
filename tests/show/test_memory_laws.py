"""Every part of a planned layout's memory has a formula that gives it."""

import pytest

from mathlib import specs
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.room import Room
from mathlib.show import memory_laws

RECIPE = "mixed-adam-fp32-gradients"


@pytest.mark.parametrize(
    ("model", "devices"), [("llama3-8b", 64), ("mixtral-8x7b", 64), ("qwen2.5-32b", 128)]
)
def test_every_part_has_a_formula_that_holds(model, devices):
    nodes = specs.find_cluster("dgx-h100")
    on = step.machine(model, nodes, find_rates(nodes.device), tokens=4096)
    found = planner.search(on, devices=devices, sequences=256)
    layouts = {one.layout for axis in found.best_with.values() for one in axis.values()}
    assert {lay.zero for lay in layouts} == {0, 1, 2, 3} or model != "llama3-8b"
    for layout in layouts:
        laws = memory_laws.memory(on, layout, RECIPE)
        assert all(one.formula and one.words for one in laws), layout
        needed = Room(on.model, on.tokens, RECIPE).total(layout)
        assert sum(one.amount for one in laws) == pytest.approx(needed)
        parts = memory_laws.parts(on, layout, RECIPE)
        assert [(one.name, one.amount) for one in laws] == list(parts.items())
