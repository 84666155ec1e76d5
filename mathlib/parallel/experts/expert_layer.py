"""A layer with experts on one rank: the whole router and shared expert, some of the experts, or of
each a part.

Over some ranks whole ones, as many on each: expert parallelism
Over other ranks a part of the numbers inside each: expert tensor parallelism; these ranks first
gather their tokens, and at last add up partial sums, each for its own tokens
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.model import modern
from mathlib.parallel.experts import dispatch
from mathlib.parallel.experts.router import Choice, Routing, choose
from mathlib.parallel.tensor.conjugates import gather_forward, gathered, scatter_forward

Watch = Callable[[int], AbstractContextManager]  # rows that this rank's experts compute


@dataclass(frozen=True)
class Groups:
    """Who has what of the experts, seen from this rank."""

    expert: ProcessGroup | None  # ranks that together have all of them
    tensor: ProcessGroup | None  # ranks that have parts of the same
    sharing: ProcessGroup | None  # both: ranks with something else each
    copies: ProcessGroup | None  # ranks with the same as this one


def part(expert: Any, rank: int, ranks: int) -> nn.Module:
    """This rank's numbers inside: columns of the first two matrices, rows of the last one."""
    for matrix, dim in ((expert.gate, 0), (expert.up, 0), (expert.down, 1)):
        mine = matrix.weight.detach().chunk(ranks, dim)[rank]
        matrix.weight = nn.Parameter(mine.clone(), matrix.weight.requires_grad)
    return expert


class ExpertLayer(nn.Module):
    """Takes the place of a Modern's `mlp`; after a forward it knows its visits and shares."""

    bias: Tensor
    choice: Choice

    def __init__(
        self, whole: modern.Experts, groups: Groups, how: Routing, factor: float, watch: Watch
    ):
        super().__init__()
        self.groups, self.how, self.factor, self.watch = groups, how, factor, watch
        self.active, self.total = whole.active, len(whole.experts)
        self.router, self.shared = whole.router, whole.shared
        r, e = dist.get_rank(groups.expert), dist.get_world_size(groups.expert)
        self.tensor = dist.get_world_size(groups.tensor)
        self.first = r * self.total // e
        mine = whole.experts[self.first : self.first + self.total // e]
        i = dist.get_rank(groups.tensor)
        self.experts = nn.ModuleList(part(expert, i, self.tensor) for expert in mine)
        self.register_buffer("bias", whole.router.weight.new_zeros(self.total))

    def forward(self, x: Tensor) -> Tensor:  # b s h
        tokens = x.reshape(1, -1, x.shape[-1])
        self.choice = choose(self.router(tokens), self.bias, self.active, self.how)
        weights, chosen, _ = self.choice
        if self.tensor > 1:  # one rank's tokens after the other's
            both = gather_forward(torch.cat([tokens, weights], -1), self.groups.tensor)
            y, weights = both.split([x.shape[-1], self.active], -1)
            y = self.routed(y[0], weights[0], gathered(chosen, self.groups.tensor)[0])
            y = scatter_forward(y[None], self.groups.tensor)
        else:
            y = self.routed(tokens[0], weights[0], chosen[0])
        y = y.view_as(x)
        return y + self.shared(x) if self.shared else y

    def routed(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """The weighed sum of what its experts make of each token."""
        visits = dispatch.visits_of(chosen, self.total)
        if self.factor:
            room = dispatch.slots(len(tokens), self.active, self.total, self.factor)
            visits = visits.within(room)
            rows = tokens[visits.token]
            made = dispatch.padded(rows, visits, self.compute, self.groups.expert, room)
        else:
            rows = tokens[visits.token]
            made = dispatch.dropless(rows, visits, self.compute, self.groups.expert)
        made = made * weights[visits.token, visits.place][:, None]
        to = visits.token[:, None].expand_as(made)  # index_add would keep `made` a second time
        return torch.zeros_like(tokens).scatter_add(0, to, made)

    def compute(self, rows: Sequence[Tensor]) -> list[Tensor]:
        with self.watch(sum(map(len, rows))):
            return [expert(x) for expert, x in zip(self.experts, rows, strict=True)]

    @torch.no_grad()
    def visits(self) -> Tensor:
        """How many of this rank's tokens chose each expert."""
        return self.choice.chosen.flatten().bincount(minlength=self.total)
