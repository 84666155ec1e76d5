"""Gradients of all ranks added up, bounded, and used: by whole optimizers, or by ZeRO's shards.

Every loss is divided by the tokens of the whole batch that count, so all gradients are sums. Those
of what is dense are added up over the data and context ranks, an expert's over the ranks that have
the same, and those of copies on other stages besides; the tensor ranks have done their part in
backward.

The norm of the whole gradient is the root of the sum, over all ranks, of every square divided by
how many ranks hold that number: so each counts once, however it is cut, copied or sharded.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib.parallel.alike import told_by_all
from mathlib.parallel.experts.expert_parallel import Held
from mathlib.parallel.pipeline.copies import Copies
from mathlib.parallel.together.grid import Grid
from mathlib.parallel.together.places import Place
from mathlib.parallel.together.stage import Stage
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3

STAGES: dict[int, type[Zero1]] = {1: Zero1, 2: Zero2, 3: Zero3}


class Leaf(NamedTuple):
    """What an optimizer updates: a parameter, or a shard of several."""

    numbers: nn.Parameter
    optimizer: torch.optim.Optimizer
    row: FlatShard | None  # that it is a shard of

    def stretches(self, like: Tensor) -> Iterator[tuple[nn.Parameter, int, Tensor]]:
        """Of each parameter what is here of a tensor like the leaf, from which number on."""
        if self.row:
            yield from self.row.stretches(like)
        else:
            yield self.numbers, 0, like.detach().view(-1)


class Updates:
    """To be made on all ranks at once; after the last backward of a step, call it."""

    def __init__(self, stage: Stage, grid: Grid, make: MakeOptimizer, zero: int, clip: float):
        self.places, self.most, self.zeros = stage.places, clip, list[Zero1]()
        if zero:
            for c in stage.chunks:
                for expert in (False, True):
                    if own := stage.own(c, expert):
                        self.zeros.append(_sharded(stage, grid, make, zero, c, own, expert))
            owners = [(zero.optimizer, row) for zero in self.zeros for row in zero.shards]
            self.leaves = [Leaf(row.shard, optimizer, row) for optimizer, row in owners]
        else:
            self.optimizer = make(list(stage.places))  # type: ignore[arg-type]
            self.leaves = [Leaf(p, self.optimizer, None) for p in stage.places]
        tensor = grid.place("tensor")
        self.copies = Copies(
            {self._key(leaf, tensor): leaf.numbers for leaf in self.leaves}, grid.among
        )
        mine = {(place.name, place.part) for place in stage.places.values()}
        self.holders = Counter(key for keys in told_by_all(mine, None) for key in keys)

    def _key(self, leaf: Leaf, tensor: int) -> tuple[tuple[int, int], str]:
        """What ranks have in common whose gradients of a leaf are added up."""
        if leaf.row is None:
            place = self.places[leaf.numbers]
            return (place.rank if place.expert else tensor, 0), place.name
        places = [self.places[p] for p in leaf.row.names]
        number = dist.get_rank(leaf.row.group)
        where = places[0].rank if places[0].expert else tensor
        return (where, number), " ".join(place.name for place in places)

    @torch.no_grad()
    def __call__(self) -> Tensor | None:
        """Add up, clip, update; the gradient's norm, if it is bounded."""
        for zero in self.zeros:
            zero.reduce()
        self.copies.add_up()
        norm = self.clip() if math.isfinite(self.most) else None
        for zero in self.zeros:
            zero.update()
        if not self.zeros:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return norm

    def clip(self) -> Tensor:
        """Scale gradients so that the norm of all of them is at most `most`; what it was."""
        gradients = [(leaf, leaf.numbers.grad) for leaf in self.leaves]
        total = torch.zeros((), dtype=torch.float64)
        for leaf, gradient in gradients:
            shards = leaf.row.ranks if leaf.row else 1
            for p, _, part in leaf.stretches(gradient) if gradient is not None else ():
                total += (
                    part.double().square().sum() * shards / self.holders[_number(self.places[p])]
                )
        dist.all_reduce(total)
        norm = total.sqrt()
        factor = (self.most / (norm + 1e-6)).clamp(max=1.0)
        for _, gradient in gradients:
            if gradient is not None:
                gradient.mul_(factor.to(gradient.dtype))
        return norm


def _number(place: Place) -> tuple[str, int]:
    return place.name, place.part


def _sharded(
    stage: Stage,
    grid: Grid,
    make: MakeOptimizer,
    zero: int,
    chunk: int,
    own: dict[str, nn.Parameter],
    expert: bool,
) -> Zero1:
    """ZeRO of a chunk's experts, or of the rest; what other stages may hold is in a row of its
    own, so that its shards are cut alike there.
    """
    ties = set(stage.inside[chunk].ties.values())
    groups = [[p for name, p in own.items() if (name in ties) == tied] for tied in (False, True)]
    options = {
        "groups": [{"params": group} for group in groups if group],
        "sums": True,
        "group": grid.groups["expert data" if expert else "data"],
    }
    if zero == 3:
        layers = stage.inside[chunk].blocks.children()
        return Zero3(stage.chunks[chunk], make, layers, **options)  # type: ignore[arg-type]
    return STAGES[zero](Held(own), make, **options)  # type: ignore[arg-type]
