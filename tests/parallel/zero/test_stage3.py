"""Stage 3: layers come and go, in forward, in backward and when forward is run again."""

import math
from dataclasses import replace
from itertools import count

import pytest
import sharding
import torch
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters.trace import Trace
from mathlib.model import gpt, oracle
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.stage3 import Zero3

DEEP = replace(sharding.MODEL, layers=6)


def zero3_of(model, **options) -> Zero3:
    return Zero3(model, oracle.OPTIMIZERS["SGD"], list(model.blocks), **options)


def row_bytes(row: FlatShard) -> int:
    return row.row.untyped_storage().nbytes()


def live_layers(prefetch: bool, recompute: str) -> tuple[int, float, int]:
    """Most layers whole at once, the weights' rows kept after backward, and gathers of layers."""
    model = gpt.GPT(DEEP, seed=0, recompute=recompute)
    zero = zero3_of(model, prefetch=prefetch)
    most, gathers = [0], [0]
    begin = FlatShard.begin_gather

    def seen(self):
        fresh = not (self.whole or self.arriving)
        begin(self)
        gathers[0] += fresh
        now = sum(row_bytes(row) > 0 for b in model.blocks for row in zero.rows[b])
        most[0] = max(most[0], now)

    FlatShard.begin_gather = seen
    for _ in range(2):
        gathers[0] = 0
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
        zero.step()
    left = sum(row_bytes(row) for row in zero.every_row())
    return most[0], left, gathers[0] - 1  # the row of what stands in no layer


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_one_layer_is_whole_at_a_time_or_two_with_prefetch(recompute):
    for prefetch, most in ((False, 1), (True, 2)):
        found = launch.run(live_layers, 2, prefetch, recompute)
        assert found == [(most, 0, 2 * DEEP.layers)] * 2


def test_weights_that_are_away_keep_their_shape_and_read_as_nan():
    def run():
        model = sharding.build("odd", 0)
        Zero3(model, oracle.OPTIMIZERS["SGD"], [model.last])
        return [(tuple(p.shape), math.isnan(p.sum())) for p in model.last.parameters()]

    assert launch.run(run, 2) == [[((1, 5), True), ((1,), True)]] * 2


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_recomputation_and_prefetch_change_no_weight(recompute):
    def run(prefetch, recompute):
        model = gpt.GPT(DEEP, seed=0, recompute=recompute).double()
        zero = zero3_of(model, prefetch=prefetch)
        for step in range(2):
            oracle.loss(model, *oracle.my_part(sharding.PROBLEMS["gpt"][1](step))).backward()
            zero.step()
        return sharding.weights(zero)

    plain, _ = launch.run(run, 2, False, "none")
    for found in launch.run(run, 2, True, recompute):
        assert oracle.distance([found], plain) < oracle.EQUAL


def test_full_weights_load_into_a_plain_module():
    def run():
        model = sharding.build("odd", 0)
        zero = Zero3(model, oracle.OPTIMIZERS["SGD"], sharding.PROBLEMS["odd"][3](model))
        return zero.full_weights()

    plain, wanted = sharding.build("odd", 1), sharding.build("odd", 0)
    (state, _) = launch.run(run, 2)
    plain.load_state_dict(state)
    assert torch.equal(oracle.flat_weights(plain), oracle.flat_weights(wanted))


def test_without_gradients_everything_is_given_back_at_the_end_of_forward():
    def run():
        model = gpt.GPT(DEEP, seed=0)
        zero = zero3_of(model)
        with torch.no_grad():
            loss = oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0))
        return loss.item(), sum(row_bytes(row) for row in zero.every_row())

    wanted = oracle.loss(gpt.GPT(DEEP, seed=0), *sharding.PROBLEMS["gpt"][1](0)).item()
    assert launch.run(run, 2) == [(pytest.approx(wanted, rel=1e-5), 0)] * 2


def test_layers_inside_one_another_are_refused():
    def run():
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
        with pytest.raises(InputError, match="inside another"):
            Zero3(model, oracle.OPTIMIZERS["SGD"], [model[0], model[0][0]])

    launch.run(run, 1)


def test_weights_that_forward_left_whole_are_new_after_a_step():
    def run():
        model = sharding.build("odd", 0)
        zero = Zero3(model, oracle.OPTIMIZERS["SGD"], sharding.PROBLEMS["odd"][3](model))
        for step in range(sharding.STEPS):
            batch = oracle.my_part(sharding.odd_batch(step))
            sharding.mse(model, *batch).backward()
            sharding.mse(model, *batch)  # for its value only, so that no backward gives back
            zero.step()
        return sharding.weights(zero)

    *_, wanted = sharding.by_one("odd", "SGD")
    assert oracle.distance(launch.run(run, 2), wanted) < oracle.EQUAL


def first_starts(prefetch: bool) -> dict[str, float]:
    """When, in the second step, each event of that name first began."""
    model, ticks = gpt.GPT(DEEP, seed=0), count()
    trace = Trace(clock=lambda: next(ticks))
    zero = zero3_of(model, prefetch=prefetch, trace=trace)
    for number, block in enumerate(model.blocks):
        said = f"forward {number}"
        block.register_forward_pre_hook(lambda *_, said=said: trace.begin(said)())
    for _ in range(2):
        trace.events.clear()
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
        zero.step()
    return {e.what: e.start for e in sorted(trace.events, key=lambda e: -e.start)}


@pytest.mark.parametrize("prefetch", [False, True])
def test_the_trace_shows_that_the_next_gather_begins_before_this_layer_computes(prefetch):
    for starts in launch.run(first_starts, 2, prefetch):
        for layer in range(1, DEEP.layers):
            begun = starts[f"all-gather of blocks.{layer}"]
            awaited = starts[f"wait for all-gather of blocks.{layer}"]
            before = starts[f"forward {layer - 1}"]
            assert (begun < before) is prefetch and before < awaited
