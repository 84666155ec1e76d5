"""Every part of a planned step has a formula, and its numbers give what the planner gives."""

import pytest

from mathlib import specs
from mathlib.plan import planner, step
from mathlib.plan.calibration import Rates, find_rates
from mathlib.plan.machine import host_of
from mathlib.show import step_laws
from mathlib.specs import Layout

CASES = (
    ("llama3-8b", "dgx-h100", 64, 8192),
    ("gpt3-175b", "dgx-a100", 512, 2048),
    ("mixtral-8x7b", "p5en.48xlarge", 64, 4096),
    ("llama2-7b", "p3dn.24xlarge", 32, 2048),
)


def unexplained(laws):
    """Parts without a formula."""
    return [one.name for one in laws if not one.formula]


@pytest.mark.parametrize(("model", "cluster", "devices", "tokens"), CASES)
def test_every_part_of_every_kind_of_layout_has_a_formula_that_holds(
    model, cluster, devices, tokens
):
    nodes = specs.find_cluster(cluster)
    on = step.machine(model, nodes, find_rates(nodes.device), tokens=tokens)
    found = planner.search(on, devices=devices, sequences=256)
    assert found
    layouts = {one.layout for axis in found.best_with.values() for one in axis.values()}
    assert len(layouts) > 5
    for layout in layouts:
        laws = step_laws.seconds(on, layout)
        assert not unexplained(laws), layout
        assert sum(one.amount for one in laws) == pytest.approx(step.step(on, layout).total)
        assert all(one.words for one in laws)


def test_parts_that_the_fitted_rates_leave_out_have_formulas_too():
    """Tensor exchanges that nothing hides, recomputation in part, crowded nodes."""
    rates = Rates(tensor_hidden=0.3, launch_more=1e-4, again=0.2, crowd=0.02)
    on = step.machine("llama3-8b", specs.find_cluster("dgx-h100"), rates, tokens=4096)
    layout = Layout(data=8, tensor=4, pipeline=2, context=2, micro_batches=8, zero=1)
    for again in ("none", "selective", "full"):
        lay = Layout(**{**vars(layout), "recompute": again, "sequence_parallel": True})
        laws = step_laws.seconds(on, lay)
        assert not unexplained(laws)
        assert {"TP communication", "CP communication", "crowding"} <= {one.name for one in laws}


@pytest.mark.parametrize("offload", ["states", "activations", "both"])
def test_what_waits_on_the_host_has_its_own_formulas(offload):
    nodes = specs.find_cluster("dgx-a100")
    told = {"tokens": 8192, "host": host_of(nodes)}
    on = step.machine("llama3-70b", nodes, find_rates(nodes.device), **told)
    lay = Layout(tensor=8, pipeline=2, micro_batches=16, sequence_parallel=True)
    laws = step_laws.seconds(on, lay, offload)
    assert not unexplained(laws)
    whole = step.step(on, lay, offload=offload).total
    assert sum(one.amount for one in laws) == pytest.approx(whole)
    assert whole > step.step(on, lay).total


def test_a_formula_that_does_not_hold_is_not_shown():
    numbers = {"m": 2, "v": 3, "t_s": 0.5}
    right = step_laws.law("x", (3.0, "3 s"), "words", "T = m * v * t_s", numbers)
    wrong = step_laws.law("x", (3.1, "3.1 s"), "words", "T = m * v * t_s", numbers)
    assert "<math" in right.formula and right.words == "words"
    assert (wrong.formula, wrong.words, wrong.amount) == ("", "", 3.1)
