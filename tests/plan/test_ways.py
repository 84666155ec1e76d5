"""Every way is a layout, and none is left out that divides."""

import pytest

from mathlib.layout import Layout
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.specs import find_cluster, find_model

CLUSTER, RATES = find_cluster("dgx-h100"), find_rates("h100-sxm")
ON = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096)
MIXED = step.machine("mixtral-8x7b", CLUSTER, RATES, tokens=4096)


@pytest.mark.parametrize("on", [ON, MIXED], ids=["dense", "experts"])
def test_every_way_is_a_layout_of_the_devices(on: step.Machine) -> None:
    found = list(planner.ways(on.model, tokens=4096, devices=16, sequences=32, node=8))
    assert len(set(found)) == len(found) > 1000
    for way in found:
        lay = Layout(**way._asdict())
        assert lay.world == 16 and lay.sequences == 32 and lay.tensor <= 8
        assert lay.shard == way.shard and lay.expert_split == way.expert_split
    for axis in ("tensor", "context", "pipeline", "chunks", "zero", "shard", "recompute"):
        assert len({getattr(way, axis) for way in found}) > 1, axis
    assert bool(on.model.experts) == any(way.expert > 1 for way in found)


def test_uneven_stages_are_tried_and_empty_ones_are_not() -> None:
    model = find_model("llama3-8b").but(layers=30, name="30 layers")
    how = {"tokens": 4096, "sequences": 16, "node": 8}
    stages = {way.pipeline for way in planner.ways(model, devices=16, **how)}
    assert stages == {1, 2, 4, 8}  # 16 stages of 2 would leave one empty
