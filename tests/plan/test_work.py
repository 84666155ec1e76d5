"""Amounts of a step against the exact counts of FLOP, parameters and bytes on the wire."""

import pytest

from mathlib.compute import flops, params
from mathlib.memory import states
from mathlib.plan import work
from mathlib.specs import Layout, find_model

NAMES = ("gpt2", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "mistral-7b")


@pytest.mark.parametrize("name", NAMES)
def test_flop_of_all_layers_are_those_counted(name: str) -> None:
    model = find_model(name)
    s = 512
    one = work.layer(model, s, 2, 1, 1, True, False, 1)
    counted = flops.forward(model, sequences=2, tokens=s, causal=True)
    scores = counted.amount("attention scores") + counted.amount("attention values")
    head = counted.amount("vocabulary")
    assert (one.flop + one.grouped) * model.layers == pytest.approx(counted.total - scores - head)
    assert one.attention * model.layers == pytest.approx(scores)
    assert work.ends(model, s, 2, 1, 1).flop == head
    assert bool(one.grouped) == bool(model.experts)


@pytest.mark.parametrize("t", [2, 8])
@pytest.mark.parametrize("among", [1, 2])
def test_a_device_does_its_share(t: int, among: int) -> None:
    model = find_model("llama3-8b")
    whole = work.layer(model, 1024, 2, 1, 1, True, False, 1)
    share = work.layer(model, 1024, 2, t, among, True, True, 1)
    for name in ("flop", "attention"):
        assert getattr(share, name) == pytest.approx(getattr(whole, name) / t / among)
    assert share.traffic == pytest.approx(whole.traffic / t / among)
    open_ = work.layer(model, 1024, 2, t, among, True, False, 1)
    assert open_.traffic > share.traffic  # norms are done by all without sequence parallelism
    assert open_.moved == share.moved > whole.moved / t / among  # whole inputs of narrow matmuls


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_a_stage(name: str) -> None:
    model = find_model(name)
    every = params.count(model)
    own = work.held(model, 1, 1, 1, 1)
    matrices = own.dense + own.experts
    biases = sum(m.layers * m.copies * m.outputs for m in params.matrices(model)[:-1] if m.bias)
    outside = sum(
        every.amount(n) for n in ("embedding", "positions", "norms", "head") if n in every
    )
    sinks = every.amount("sinks") if "sinks" in every else 0
    assert matrices == every.total - outside - sinks and biases < matrices / 100


def test_experts_are_held_by_fewer() -> None:
    model = find_model("mixtral-8x7b")
    dealt = work.held(model, 2, 4, 8, 1)
    lay = Layout(data=8, tensor=2, pipeline=4, expert=8, expert_tensor=1, sequence_parallel=True)
    stage = states.stage_parameters(model, lay, stage=1)
    assert dealt.experts == stage["experts"]
    assert dealt.dense == pytest.approx(
        stage.amount("attention") + stage.amount("router"), rel=0.01
    )


def test_scores_that_are_not_fused_go_through_memory() -> None:
    model = find_model("gpt2")
    fused, open_ = (work.layer(model, 1024, 1, 1, 1, f, False, 1) for f in (True, False))
    assert open_.traffic - fused.traffic == work.SCORES * 2 * 1024**2 * model.heads
    assert open_.attention > fused.attention  # what the mask hides is computed, too
