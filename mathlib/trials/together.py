"""SageMaker's sharded data parallelism beside tensor parallelism: its groups, made by processes,
and what its two examples add up to; and how many ways there are to err, by kind of parallelism.

The page is "Sharded Data Parallelism" of the SageMaker model parallelism library.
"""

import re
from collections import Counter
from typing import NamedTuple

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.layout import Layout
from mathlib.prover import faults
from mathlib.prover.case import case
from mathlib.prover.prove import Verdict, prove
from mathlib.traffic import mesh

# The page's list for 32 GPUs, tensor degree 4, sharding degree 4
TENSOR = [list(range(first, first + 4)) for first in range(0, 32, 4)]
REDUCED = [0, 4, 8, 12, 16, 20, 24, 28]  # data parallelism of the first tensor rank
SHARDED = [[0, 4, 8, 12], [16, 20, 24, 28]]  # of the same rank
COPIES = [[0, 4], [1, 5], [2, 6], [3, 7]]  # TPG0 and TPG4 and so on; the same of SDPG


class Example(NamedTuple):
    """What a configuration adds up to."""

    batches: int  # ranks, or tensor groups, that read a batch of their own
    copies: int  # of the model: its sharding groups
    sequences: int  # of a step
    tokens: int


def example(*, world: int, shard: int, batch: int, tokens: int, tensor: int = 1) -> Example:
    """The page says "model replicas" of what reads a batch; a model is held by a sharding group."""
    grid = mesh.sagemaker(world=world, tensor=tensor, shard=shard)
    batches = len(grid.groups("tensor"))
    copies = len(grid.without("tensor").groups("shard"))
    return Example(batches, copies, batches * batch, batches * batch * tokens)


def listed(grid: mesh.Mesh) -> tuple:
    """Of a grid what the page lists, in its order."""
    reduced = grid.groups("shard", "replica")[0]
    sharded = grid.groups("shard", tensor=0)
    return grid.groups("tensor"), reduced, sharded, grid.without("tensor").groups("replica")


# Made by real processes

AXES = (("tensor",), ("shard",), ("replica",), ("shard", "replica"))


def _made(tensor: int, shard: int) -> tuple[dict[str, list[int]], bool]:
    """The members of each group that this process is in, as they say themselves; and whether a sum
    in the sharding group and then over its copies is the sum over data parallelism.
    """
    rank, sums = dist.get_rank(), {}
    grid, found = mesh.sagemaker(world=dist.get_world_size(), tensor=tensor, shard=shard), {}
    value = torch.tensor(float(3**rank), dtype=torch.float64)  # tells who is in a sum
    for axes in AXES:
        for ranks in grid.groups(*axes):
            group = dist.new_group(ranks)  # all processes make all groups, in one order
            if rank in ranks:
                members = [torch.empty((), dtype=torch.int64) for _ in ranks]
                dist.all_gather(members, torch.tensor(rank), group=group)
                found[" ".join(axes)] = [int(one) for one in members]
                sums[axes] = group
    at_once, in_turn = value.clone(), value.clone()
    dist.all_reduce(at_once, group=sums["shard", "replica"])
    for axis in ("shard", "replica"):
        dist.all_reduce(in_turn, group=sums[axis,])
    return found, bool(at_once == in_turn)


def made(
    world: int = 8, tensor: int = 2, shard: int = 2
) -> list[tuple[dict[str, list[int]], bool]]:
    """Of every process, the groups it is in."""
    return launch.run(_made, world, tensor, shard)


def proved() -> Verdict:
    """The page's 32 ranks, in simulation: do these groups train what one process trains?"""
    return prove(case(Layout(data=8, tensor=4, zero=3, shard=4)))


# More ways to err


def ways_to_err() -> dict[str, int]:
    """Faults of the prover by the kind of parallelism that has them."""
    return dict(Counter(one.axis for one in faults.every().values()))


def caught(*names: str) -> list[tuple[str, str]]:
    """Faults by their names: what is wrong, and where the prover sees it first."""
    found = []
    for name in names:
        one = faults.find(name)
        verdict = one.proved()
        seen = re.sub(r" in micro-batch \d+|, row.*(?=\))", "", str(verdict.first))
        found.append((one.says, "the ranks hang" if verdict.stuck else seen))
    return found
