"""Local steps, beside replicas that one process moves by hand."""

import copy
from itertools import pairwise

import pytest
import sharding
import torch
import torch.distributed as dist
from local_replicas import STEPS, by_hand

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import oracle
from mathlib.parallel.plain.local_sgd import LocalSteps, mean, nesterov
from mathlib.traffic import compressed

CASES = [
    {"steps": 3},
    {"outer": nesterov, "steps": 2},
    {"outer": nesterov, "steps": 4, "fragments": 2},
    {"outer": nesterov, "steps": 3, "fragments": 3, "late": 2, "own": 0.25},
]


def parts(step, ranks):
    x, y = sharding.odd_batch(step)
    return zip(x.chunk(ranks), y.chunk(ranks), strict=True)


def by_ranks(options):
    model = sharding.build("odd", dist.get_rank())
    way = LocalSteps(model, oracle.OPTIMIZERS["SGD"], **options)
    history = []
    for step in range(STEPS):
        x, y = list(parts(step, dist.get_world_size()))[dist.get_rank()]
        sharding.mse(model, x, y).backward()
        way.step()
        history.append(oracle.flat_weights(model).clone())
    return history


def moved_by_hand(ranks, outer=mean, fragments=1, **options):
    rate, momentum = (0.7, 0.9) if outer is nesterov else (1.0, 0.0)
    many = len(list(sharding.build("odd", 0).parameters()))
    cut = [many * f // fragments for f in range(fragments + 1)]
    sizes = [b - a for a, b in pairwise(cut)]
    outer_step = {"rate": rate, "momentum": momentum, "fragments": fragments, "frozen": True}
    return by_hand("SGD", sizes, ranks, **outer_step, **options)


@pytest.mark.parametrize("ranks", [1, 2])
def test_weights_after_every_step_are_those_by_hand(ranks):
    for options in CASES:
        found, wanted = launch.run(by_ranks, ranks, options), moved_by_hand(ranks, **options)
        for ours, theirs in zip(found, wanted, strict=True):
            assert oracle.distance([torch.cat(ours)], torch.cat(theirs)) < oracle.EQUAL, options


def test_a_meeting_after_every_step_is_data_parallel():
    case = {"stage": "plain local steps", "problem": "gpt", "optimizer": "SGD", "steps": 1}
    assert not sharding.apart(2, [case])


def sends(H, F):
    """In each step of two rounds."""
    model = sharding.build("gpt", 0)
    way = LocalSteps(copy.deepcopy(model), oracle.OPTIMIZERS["SGD"], steps=H, fragments=F)
    found = []
    for step in range(3 * H):
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](step)).backward()
        with wire.sent() as counted:
            way.step()
        found.append((counted.program, counted.system))
    return found[H:]


@pytest.mark.parametrize("F", [1, 2])
def test_bytes_are_those_of_the_formula(F, H=4, ranks=2):
    K = sum(p.nbytes for p in sharding.build("gpt", 0).parameters())
    wanted = compressed.local_steps(payload=K, ranks=ranks, steps=H, fragments=F)
    for found in launch.run(sends, ranks, H, F):
        program, system = zip(*found, strict=True)
        assert program == pytest.approx(system, rel=1e-12)
        assert sum(program) == pytest.approx(2 * H * wanted["on average"], rel=1e-12)
        assert sum(map(bool, program)) == 2 * F
        assert F > 1 or max(program) == pytest.approx(wanted["at most"], rel=1e-12)
