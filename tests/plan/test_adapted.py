"""Adapters in the planner: memory is `memory.adapters`, time leaves out what is not done, and what
is not counted is refused.
"""

import pytest

from mathlib.checks import InputError
from mathlib.compute import flops, params
from mathlib.memory import adapters
from mathlib.plan import layer_time, planner, step
from mathlib.plan.adapted import ALONE, BITS, Adapters
from mathlib.plan.calibration import Rates
from mathlib.plan.machine import Host
from mathlib.specs import Layout, assumed_cluster, find_model

NODE = assumed_cluster("a100-80gb")
RATES = Rates(launch=0, again=0, gradient_bytes=2)
EIGHT = find_model("llama3-8b")


BESIDE = Adapters(16)


def machine(own=BESIDE, model="llama3-8b", rates=RATES, **how):
    return step.machine(model, NODE, rates, tokens=2048, adapters=own, **how)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_layout_holds_what_the_formula_says(bits, zero):
    own = Adapters(16, ("query", "value"), bits)
    room = machine(own).filled()
    for b, recompute in ((1, "none"), (4, "full")):
        lay = Layout(data=8, zero=zero, micro_batch=b, recompute=recompute)
        how = {"rank": 16, "targets": own.targets, "tokens": 2048, "recompute": recompute}
        how |= {"quantised": bits != "16", "whole_bits": bits == "4"}
        told = adapters.sharded(EIGHT, devices=8 if zero else 1, zero=zero, micro_batch=b, **how)
        assert room.total(lay) == pytest.approx(told.total, rel=1e-12)
        by_part = room.by_part(lay)
        assert by_part == pytest.approx({name: told.amount(name) for name in told})
    (best,) = planner.search(machine(own), devices=8, sequences=8, most=1).choices
    assert best.memory == pytest.approx(machine(own).filled().total(best.layout))


def test_frozen_weights_have_no_gradients_and_adapters_have_all_three_products():
    lay, n = Layout(), 2048
    full, own = (layer_time.layer_seconds(machine(one), lay)[0] for one in (None, Adapters(16)))
    forward = layer_time.layer_seconds(machine(None), lay)[1]["matmuls"]
    t = forward["F"] / forward["X"] + forward["Q"] / forward["W"]
    flop, moved = Adapters(16).narrow(EIGHT, n)
    size = params.lora(EIGHT, rank=16, targets=adapters.TARGETS).total / EIGHT.layers
    assert flop == 2 * n * size
    on = machine()
    assert full.parts[0] == pytest.approx(3 * t)
    assert own.parts[0] == pytest.approx(2 * t + 3 * (flop / on.arithmetic + moved / on.stream))
    assert own.parts[1:3] == full.parts[1:3] and own.loss < full.loss
    # four products to six, a parameter and token, where nothing but products counts
    done = [flops.training(EIGHT, tokens=n, frozen=one).total for one in (True, False)]
    assert done[0] < 0.7 * done[1]
    took = step.step(on, lay).total
    assert step.utilization(on, lay) == pytest.approx(done[0] / took / on.peak)


def test_matrices_in_four_bits_are_unpacked_for_every_pass():
    lay = Layout(recompute="full")
    plain, packed = (
        layer_time.layer_seconds(machine(Adapters(16, bits=b)), lay)[0].parts for b in ("16", "4")
    )
    each = Adapters(16, bits="4").unpacked(EIGHT) / machine().stream
    assert packed[0] - plain[0] == pytest.approx(2 * each)  # forward, and for the input's gradient
    assert packed[4] - plain[4] == pytest.approx(each)
    assert Adapters(16).unpacked(EIGHT) == 0


def test_replicas_send_adapters_and_stage_3_gathers_what_is_frozen():
    rates = Rates(data_hidden=0, hop=0, gradient_bytes=2)
    P = params.lora(EIGHT, rank=16, targets=adapters.TARGETS).total

    def sent(own, **how):
        on = machine(own, rates=rates)
        found = step.step(on, Layout(data=8, micro_batches=1, **how))
        return found.amount("DP communication") / on.inside * 8 / 7 if own else 0

    assert sent(Adapters(16)) == pytest.approx(2 * 2 * P)
    assert sent(Adapters(16), zero=1) == pytest.approx((2 + 2) * P)
    K = 2 * params.total(EIGHT)
    whole = sent(Adapters(16), zero=3)
    assert whole == pytest.approx(2 * (K + 2 * P) + 2 * P, rel=1e-3), "norms are too few to count"
    half, quarter = (sent(Adapters(16, bits=bits), zero=3) for bits in ("4", "4 sharded"))
    assert half < quarter < 0.5 * whole, "bits that stay whole are not gathered"


@pytest.mark.parametrize(("zero", "share"), [(0, 1), (1, 8), (3, 8)])
def test_an_update_is_of_adapters_alone(zero, share):
    on, P = machine(), params.lora(EIGHT, rank=16, targets=adapters.TARGETS).total
    took = step.step(on, Layout(data=8, zero=zero)).amount("optimizer")
    assert took == pytest.approx(30 * P / share / on.stream)


def test_only_replicas_and_shards_are_tried_and_others_are_refused():
    on = machine()
    found = planner.search(on, devices=8, sequences=64)
    for one in found.choices:
        assert all(getattr(one.layout, axis) in of for axis, of in ALONE.items())
    assert found.tried < planner.search(machine(None), devices=8, sequences=64).tried / 10
    for how in ({"tensor": 2}, {"pipeline": 2}, {"recompute": "selective"}):
        for ask in (planner.search, planner.largest):
            more = {"sequences": 8} if ask is planner.search else {}
            with pytest.raises(InputError, match="with adapters expected"):
                ask(on, devices=8, only=how, **more)
        with pytest.raises(InputError, match="with adapters expected"):
            step.step(on, Layout(**how))
    with pytest.raises(InputError, match="the laws are full training's"):
        step.letters(on, Layout())
    with pytest.raises(InputError, match="precision = 'fp8': with adapters expected 'half'"):
        machine(rates=Rates(precision="fp8"))
    host = Host(link=1e10, memory=1e12, bandwidth=1e11)
    with pytest.raises(InputError, match="host = .*: with adapters expected None"):
        machine(host=host)


def test_what_nobody_counts_is_refused_with_the_reason():
    with pytest.raises(InputError, match="gated = False"):
        machine(model="gpt3-175b").filled().total(Layout())
    with pytest.raises(InputError, match="bits"):
        Adapters(16, bits="8")
    with pytest.raises(InputError, match="rank"):
        Adapters(0)


def test_each_device_needs_a_sequence_of_its_own():
    on = step.machine("llama3-70b", NODE, RATES, tokens=2048, adapters=Adapters(16))
    assert not planner.fewest(on, sequences=2, risk=0.05)
    assert planner.fewest(on, sequences=8, risk=0.05).value == 4
    packed = step.machine("llama3-70b", NODE, RATES, tokens=2048, adapters=Adapters(16, bits="4"))
    assert planner.fewest(packed, sequences=1, risk=0.05).value == 1
    most = planner.largest(on, devices=8, risk=0.05)
    lay = most.choice.layout
    assert on.filled().total(lay) == most.choice.memory and lay.sequences == most.value
    assert "too much" in most.beyond
    assert planner.longest(on, devices=8, sequences=8, risk=0.05).value > 8192
