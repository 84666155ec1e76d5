"""Every part of a step has a formula as text, which comes to it with the planner's numbers."""

from math import log2, sqrt

import pytest

from mathlib.plan import step
from mathlib.plan.calibration import Rates
from mathlib.plan.laws import LAWS, ON_HOST
from mathlib.plan.machine import host_of
from mathlib.plan.work import OFFLOAD
from mathlib.specs import Layout, find_cluster

RATES = Rates(tensor_hidden=0.3, launch_more=1e-4, again=0.2, crowd=0.02, data_hidden=0.1)
NODES = find_cluster("dgx-a100")
ON = step.machine("mixtral-8x7b", NODES, RATES, tokens=4096, host=host_of(NODES))
SPREAD = {"data": 8, "tensor": 2, "pipeline": 2, "chunks": 2, "context": 2, "expert": 8}
LAYOUTS = (
    Layout(micro_batches=3),
    *(Layout(**SPREAD, micro_batches=8, zero=z, sequence_parallel=True) for z in range(4)),
    Layout(**SPREAD, micro_batches=8, recompute="selective", sequence_parallel=True),
    Layout(**SPREAD, micro_batches=8, recompute="full", zero=1, shard=4),
)


def value(law: str, letters: dict[str, float]) -> float:
    known = {"sqrt": sqrt, "log2": log2, "max": max}
    return eval(law.partition("=")[2], {"__builtins__": {}, **known}, letters)


@pytest.mark.parametrize("offload", OFFLOAD)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_formula_comes_to_the_part_that_the_planner_has(layout, offload):
    parts = step.step(ON, layout, offload=offload)
    letters = step.letters(ON, layout, offload=offload)
    for name in parts:
        law = ON_HOST if name == "optimizer" and OFFLOAD[offload].states else name
        found = value(LAWS[law][0], letters[law])
        assert found == pytest.approx(parts.amount(name), rel=1e-9), name


def test_all_parts_are_there_and_each_is_told_in_words():
    assert set(LAWS) == {*step.NAMES, ON_HOST}
    assert all(text.startswith("T = ") and words.endswith(".") for text, words in LAWS.values())
    waits = step.letters(ON, LAYOUTS[1], offload="both")
    assert {ON_HOST, "offloading"} <= set(waits)
    assert not {ON_HOST, "offloading"} & set(step.letters(ON, LAYOUTS[1]))
