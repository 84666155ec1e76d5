"""Copies start alike and get one gradient, whatever makes them copies."""

import pipelines
import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.parallel.pipeline import copies, model_chunks
from mathlib.parallel.pipeline.copies import Copies, keys
from mathlib.schedule import orders
from mathlib.traffic import mesh


def shared(order, stages):
    """Which ranks hold each parameter, by name."""
    schedule = orders.make(order, stages=stages, micro_batches=8)
    stage = dist.get_rank() % stages  # the ranks of a replica are neighbours
    copies = Copies(keys(model_chunks.build(pipelines.shape(), schedule, stage)))
    return {name: ranks for (_, name), ranks in copies.holders.items()}


def all_shared(cases):
    return [shared(*case) for case in cases]


def test_ranks_share_what_replicas_ties_and_directions_make_them_share():
    cases = [("1f1b", 4), ("dualpipe", 4), ("1f1b", 2)]
    for plain, both, replicas in launch.run(all_shared, 4, cases, timeout=PATIENCE):
        assert {name: ranks for name, ranks in plain.items() if len(ranks) > 1} == {
            "tokens.weight": (0, 3)
        }
        assert set(both.values()) == {(0, 3), (1, 2)}
        assert replicas["tokens.weight"] == (0, 1, 2, 3)
        assert replicas["blocks.0.mlp.up.weight"] == (0, 2)
        assert replicas["blocks.3.mlp.up.weight"] == (1, 3)


def test_a_plain_pipelines_tied_ranks_are_the_meshs_embedding_group():
    grid = mesh.megatron(world=4, pp=4)
    assert mesh.embedding_groups(grid) == [[0, 3]]


def alike():
    """Two ranks with a tied weight, other numbers each, and a gradient on one of them only."""
    rank = dist.get_rank()
    part = nn.Linear(2, 2, bias=False)
    nn.init.constant_(part.weight, float(rank))
    part.ties = {"weight": "both"}
    other = nn.Linear(2, 2)
    copies = Copies(keys({2 * rank: part, 2 * rank + 1: other}))
    start = part.weight.detach().clone()
    if rank:
        part.weight.grad = torch.full((2, 2), 3.0)
    copies.add_up()
    return start.tolist(), part.weight.grad.tolist(), other.weight.grad


def test_copies_start_with_the_first_holders_numbers_and_get_the_sum():
    for start, gradient, other in launch.run(alike, 2, timeout=PATIENCE):
        assert start == [[0, 0], [0, 0]]
        assert gradient == [[3, 3], [3, 3]]
        assert other is None


def test_copies_that_cannot_be_one_are_refused():
    with pytest.raises(InputError, match="the copies of w differ: .2,., .3,."):
        copies.holders([{(0, "w"): "(2,)"}, {(0, "w"): "(3,)"}])
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    one.ties = two.ties = {"weight": "both"}
    with pytest.raises(InputError, match="two of this rank hold both, tied"):
        copies.keys({0: one, 1: two})
