"""Rows go to the ranks that have their experts, and what these make of them comes back.

P ranks share E experts, E/P each; each of the tokens of a rank visits k. Rows are h wide.

                what is sent each way         on top
dropless        the visits, as they are       8 E (P-1)/P bytes that say how many
capacity C      E C rows, filled or not       nothing; visits beyond C of an expert are dropped

Backward the gradients go the same two ways.  First choices come before second ones where there is
no room for all (GShard, Lepikhin et al. 2020, algorithm 1).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

Experts = Callable[[Sequence[Tensor]], list[Tensor]]  # each expert's rows -> what it makes of them


def exchanged(
    x: Tensor, give: Sequence[int], take: Sequence[int], group: ProcessGroup | None
) -> Tensor:
    """So many rows to each rank, so many from each."""
    y = x.new_empty(sum(take), *x.shape[1:])
    dist.all_to_all_single(y, x.contiguous(), list(take), list(give), group)
    return y


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, give: list[int], take: list[int], group: Any) -> Tensor:
        ctx.back = take, give, group
        return exchanged(x, give, take, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return exchanged(gradients[0], *ctx.back), None, None, None


def all_to_all_both(
    x: Tensor, give: Sequence[int], take: Sequence[int], group: ProcessGroup | None = None
) -> Tensor:
    """All-to-all forward, and backward the gradients' way back."""
    return _AllToAll.apply(x, give, take, group)


@dataclass(frozen=True)
class Visits:
    """Visits sorted by expert, first choices first, then by token."""

    token: Tensor  # of each visit
    place: Tensor  # which of the token's choices it is
    expert: Tensor
    many: Tensor  # visits of each expert

    @property
    def number(self) -> Tensor:
        """Of each visit, which one of its expert it is."""
        return torch.arange(len(self.expert)) - (self.many.cumsum(0) - self.many)[self.expert]

    def within(self, capacity: int) -> "Visits":
        """Those for which there is room."""
        kept = self.number < capacity
        token, place, expert = (x[kept] for x in (self.token, self.place, self.expert))
        return Visits(token, place, expert, self.many.clamp(max=capacity))


def visits_of(chosen: Tensor, experts: int) -> Visits:
    """All visits of tokens that chose so, T k."""
    flat = chosen.t().flatten()
    order = flat.argsort(stable=True)
    many = flat.bincount(minlength=experts)
    return Visits(order % len(chosen), order // len(chosen), flat[order], many)


def slots(tokens: int, active: int, experts: int, factor: float) -> int:
    """C, visits for which an expert has room: `factor` times what it would have by equal loads.

    Chapter: experts (eq-capacity)
    """
    return math.ceil(factor * tokens * active / experts)


def dropless(rows: Tensor, visits: Visits, experts: Experts, group: ProcessGroup | None) -> Tensor:
    """What experts make of these rows, sorted by expert; each visit is sent, and nothing else."""
    P, arriving = dist.get_world_size(group), torch.empty_like(visits.many)
    dist.all_to_all_single(arriving, visits.many, group=group)
    give, take = (many.view(P, -1).sum(1).tolist() for many in (visits.many, arriving))
    came = all_to_all_both(rows, give, take, group)  # by rank, then by expert
    by_rank = arriving.view(P, -1)
    who = torch.arange(by_rank.shape[1]).repeat(P).repeat_interleave(arriving)
    order = who.argsort(stable=True)
    made = torch.cat(experts(came[order].split(by_rank.sum(0).tolist())))
    return all_to_all_both(made[order.argsort()], take, give, group)


def padded(
    rows: Tensor, visits: Visits, experts: Experts, group: ProcessGroup | None, capacity: int
) -> Tensor:
    """The same of visits `within` the capacity, in boxes of one size, of which rows may be empty.

    An expert without biases makes zeros of zeros; what others make of empty rows is not read.
    """
    P, E, h = dist.get_world_size(group), len(visits.many), rows.shape[-1]
    slot = visits.expert * capacity + visits.number
    boxes = rows.new_zeros(E * capacity, h).index_copy(0, slot, rows)
    equal = [E // P * capacity] * P
    came = all_to_all_both(boxes, equal, equal, group).view(P, E // P, capacity, h)
    made = experts([came[:, i].flatten(0, 1) for i in range(E // P)])
    boxes = torch.stack([x.view(P, capacity, h) for x in made], 1).flatten(0, 2)
    return all_to_all_both(boxes, equal, equal, group)[slot]
