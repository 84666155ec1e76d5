"""MiCS by the oracle of one process, for every degree; what it sends, and what its knobs do."""

from collections import Counter
from dataclasses import replace

import pytest
import sharding
import torch

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.model import gpt, oracle
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import mesh, volumes

DEEP = replace(sharding.MODEL, layers=6)
KNOBS = (
    {},
    {"clip": 0.05},
    {"whole_below": 6, "clip": 0.05},
    {"bucket_elements": 50, "whole_below": 2},
    {"most_live": 67, "prefetch": 3},
    {"ranks_per_node": 2},
)


def mics_of(model, **options) -> Mics:
    return Mics(model, oracle.OPTIMIZERS["SGD"], list(model.blocks), **options)


def apart(ranks: int, cases: list[dict]) -> list[tuple[float, dict]]:
    return sharding.apart(ranks, [{"stage": "mics"} | case for case in cases])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_degree_and_knob_holds_the_weights_of_one_process(ranks):
    optimizers = list(oracle.OPTIMIZERS)
    cases = [
        {"problem": "odd", "shard": shard, "parts": 1 + number % 3}
        | {"optimizer": optimizers[(turn + number) % len(optimizers)]}
        | knobs
        for turn, shard in enumerate(mesh.valid_shards(world=ranks))
        for number, knobs in enumerate(KNOBS)
        if ranks % 2 == 0 or "ranks_per_node" not in knobs
    ]
    assert not apart(ranks, cases)


def test_eight_ranks_in_two_groups_of_four_on_four_nodes():
    case = {"problem": "gpt", "optimizer": "Adam", "shard": 4, "parts": 2, "ranks_per_node": 2}
    assert not apart(8, [case])


def test_without_the_sum_over_replicas_they_are_apart():
    def run():
        Mics._add_up = lambda _: None
        return sharding.by_ranks("mics", "odd", "SGD", shard=2)

    wanted = sharding.by_one("odd", "SGD")
    found = launch.run(run, 4)
    assert oracle.distance([history[-1] for history in found], wanted[-1]) > 1e-6
    assert torch.equal(found[0][-1], found[1][-1]) and not torch.equal(found[0][-1], found[2][-1])


def a_step(shard: int, parts: int, **knobs) -> tuple[Counter, Counter, int, int]:
    """Calls and payload of a step, by kind; numbers in layers' rows, and in the others'."""
    model = gpt.GPT(sharding.MODEL, seed=0)
    mics = mics_of(model, shard=shard, **knobs)
    batch = [t[: 2 * parts] for t in sharding.PROBLEMS["gpt"][1](0)]
    for _ in range(2):
        with wire.counted() as counted:
            for part in zip(*(t.tensor_split(parts) for t in batch), strict=True):
                oracle.loss(model, *part).backward()
            mics.step()
    numbers = sum(s.ranks * s.length for s in mics.shards)
    stay = sum(s.ranks * s.length for s in mics.rows[model])
    return counted.calls, counted.payload, numbers - stay, stay


@pytest.mark.parametrize("parts", [1, 3])
def test_the_payload_of_a_step_is_the_formula(parts):
    """All-reduces over replicas once a step, whatever the number of micro-batches (S12)."""

    def run(parts):
        return [a_step(shard, parts) for shard in (1, 2, 4)]

    for found in launch.run(run, 4, parts):
        for shard, (calls, payload, layers, stay) in zip((1, 2, 4), found, strict=True):
            how = {"data": 4, "stage": 3, "shard": shard, "micro_batches": parts}
            how |= {"weight_bytes": 4, "gradient_bytes": 4}
            wanted = volumes.zero(parameters=layers, **how)
            rest = volumes.zero(parameters=stay, keep_gathered=True, **how)
            sharded = payload["_allgather_base_"] + payload["alltoall_base_"]
            replicas = 4 // shard
            sent = {
                "sharded": sharded * (shard - 1) / shard,
                "replicas": 2 * payload["allreduce_"] * (replicas - 1) / replicas,
            }
            over = wanted.get("gradients, replicas", 0) + rest.get("gradients, replicas", 0)
            assert sent["replicas"] == over
            assert sent["sharded"] == wanted.total + rest.total - over
            assert calls["allreduce_"] == (3 if shard < 4 else 0)  # two layers and the rest
            assert calls["alltoall_base_"] == (3 * parts if shard > 1 else 0)


def test_the_largest_degree_is_zero_3_call_by_call():
    def run():
        mics, *_ = a_step(4, 2)
        model = gpt.GPT(sharding.MODEL, seed=0)
        zero = Zero3(model, oracle.OPTIMIZERS["SGD"], list(model.blocks))
        for _ in range(2):
            with wire.counted() as counted:
                for _ in range(2):
                    oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
                zero.step()
        return mics, counted.calls

    for mics, zero in launch.run(run, 4):
        assert mics == zero


def test_fp32_weights_beside_a_bf16_module_reach_the_small_tensors_too():
    """Against stage 3, which test_stage1 holds against one process."""

    def run(way, **options):
        model = gpt.GPT(sharding.MODEL, seed=0).bfloat16()
        zero = way(model, oracle.OPTIMIZERS["Adam"], list(model.blocks), master=True, **options)
        for step in range(3):
            oracle.loss(model, *oracle.my_part(sharding.PROBLEMS["gpt"][1](step))).backward()
            zero.step()
        return sharding.weights(zero)

    def both():
        return run(Zero3), run(Mics, shard=2, whole_below=100)

    for zero, mics in launch.run(both, 2):
        assert torch.equal(zero, mics)


def test_a_degree_that_is_none_is_refused_with_the_valid_ones():
    def run():
        said = []
        for shard in (0, 4, 12, -1):
            with pytest.raises(InputError) as refused:
                mics_of(gpt.GPT(sharding.MODEL), shard=shard)
            said.append(str(refused.value))
        return said

    for shard, said in zip((0, 4, 12, -1), launch.run(run, 6)[0], strict=True):
        assert f"shard = {shard}" in said and "1, 2, 3, 6" in said
