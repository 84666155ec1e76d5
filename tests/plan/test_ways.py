"""Every way is a layout, and none is left out that divides."""

import pytest

from mathlib.checks import ceil_div
from mathlib.layout import Layout, chunk_layers, spreads
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.schedule.orders import make
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
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
    how = {"tokens": 4096, "sequences": 64, "node": 8}
    tried = list(planner.ways(model, devices=64, **how))
    assert {way.pipeline for way in tried} == {1, 2, 4, 8, 16}  # 32 stages would leave two empty
    chunks = {p: {way.chunks for way in tried if way.pipeline == p} for p in (2, 4, 8, 16)}
    # of 15 layers a stage; of 8, two stages 7; of 4, two stages 3; of 2, two stages 1
    assert chunks == {2: {1, 3, 5}, 4: {1, 2, 4, 8}, 8: {1, 2, 4}, 16: {1, 2}}


def test_the_layout_that_llama_3_was_trained_with_is_offered() -> None:
    """arXiv:2407.21783, Table 4 and section 3.3.2: 126 layers in 16 stages, a layer a chunk."""
    model, how = find_model("llama3-405b"), {"tokens": 8192, "sequences": 2048, "node": 8}
    tried = [w for w in planner.ways(model, devices=16384, **how) if w.pipeline == 16]
    own = [w for w in tried if (w.tensor, w.context, w.data, w.micro_batch) == (8, 1, 128, 1)]
    assert {way.chunks for way in own} == {1, 2, 4, 8}
    assert any(way.zero == 1 and way.recompute == "none" for way in own if way.chunks == 8)


@pytest.mark.parametrize(("layers", "stages"), [(126, 16), (61, 8), (30, 4), (80, 8), (80, 32)])
def test_uneven_stages_take_what_the_formula_says_when_they_run(layers: int, stages: int) -> None:
    """m (fullest stage) + (p - 1)/v (a stage), against the schedule by the clock: exact where
    stages are even, else never too quick and a tenth too slow at most.
    """
    for chunks in [v for v in range(1, 9) if spreads(layers, stages, v)]:
        for m in (stages, 4 * stages):
            order = "interleaved" if chunks > 1 else "1f1b"
            more = {"chunks": chunks} if chunks > 1 else {}
            sizes = [float(n) for n in chunk_layers(layers, stages, chunks)]
            run = simulate(
                make(order, stages=stages, micro_batches=m, **more),
                Times(forward=sizes, backward=[2 * n for n in sizes]),
            )
            fullest = ceil_div(layers, stages)
            said = 3 * (m * fullest + (stages - 1) / chunks * layers / stages)
            least = 1.0 if layers % stages == 0 else 0.9
            assert least * said <= run.total + 1e-6 and run.total <= said * (1 + 1e-9)


def test_chunks_that_are_not_offered_would_make_stages_wait() -> None:
    """Ten layers a stage in three chunks, 4, 3, 3: longer than the formula says."""
    p, v, m = 8, 3, 32
    sizes = [4.0] * p + [3.0] * 2 * p
    order = make("interleaved", stages=p, micro_batches=m, chunks=v)
    took = simulate(order, Times(forward=sizes, backward=[2 * n for n in sizes])).total
    assert took > 1.01 * 3 * (m * 10 + (p - 1) / v * 10) and not spreads(80, p, v)
