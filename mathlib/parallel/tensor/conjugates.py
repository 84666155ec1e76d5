"""What tensor ranks exchange, each function named by what it does forward and what backward.

t   tensor ranks · b s h   numbers of the residual stream · s/t   tokens of a rank

                                 forward          backward
all_reduce_forward               all-reduce       identity          Megatron's g
all_reduce_backward              identity         all-reduce        f
gather_forward                   all-gather       reduce-scatter    sequence parallel's g
scatter_forward                  reduce-scatter   all-gather        g-bar
split_forward                    own tokens       all-gather

(Shoeybi et al. 2019, figure 3; Korthikanti et al. 2022, figure 5.) A reduce-scatter is an
all-to-all and a sum on the spot: gloo's own is an all-reduce and sends twice the bytes.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.parallel.zero.flat_shards import Transfer, all_gather

Group = ProcessGroup | None
Raw = Callable[[Tensor, Group], Tensor]


def reduced(x: Tensor, group: Group) -> Tensor:
    """The sum of all ranks' numbers."""
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, group=group)
    return x


def begin_gather(x: Tensor, group: Group) -> tuple[Tensor, Transfer]:
    """A row for the tokens of all ranks, t b s/t h, and what fills it."""
    x = x.contiguous()
    row = x.new_empty(dist.get_world_size(group), *x.shape)
    return row, all_gather(row.view(-1), x.view(-1), group)


def in_order(row: Tensor) -> Tensor:  # t b s/t h -> b s h
    """One rank's tokens after the other's."""
    return row.transpose(0, 1).flatten(1, 2)


def gathered(x: Tensor, group: Group) -> Tensor:  # b s/t h -> b s h
    """The tokens of all ranks."""
    row, transfer = begin_gather(x, group)
    transfer.wait()
    return in_order(row)


def begin_scatter(x: Tensor, group: Group) -> tuple[Tensor, Tensor, dist.Work]:
    """Every other rank's tokens leave for it; ours arrive, t b s/t h, still to be added up."""
    row = x.unflatten(1, (dist.get_world_size(group), -1)).transpose(0, 1).contiguous()
    arrived = torch.empty_like(row)
    work = dist.all_to_all_single(arrived.view(-1), row.view(-1), group=group, async_op=True)
    return row, arrived, work  # the row must live until all is sent


def scattered(x: Tensor, group: Group) -> Tensor:  # b s h -> b s/t h
    """This rank's tokens of the sum."""
    _row, arrived, work = begin_scatter(x, group)
    work.wait()
    return arrived.sum(0)


def own_tokens(x: Tensor, group: Group) -> Tensor:  # b s h -> b s/t h
    """This rank's tokens of what all ranks have."""
    return x.chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].contiguous()


def identity(x: Tensor, group: Group) -> Tensor:
    """The same numbers, as another tensor."""
    return x.view_as(x)


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Raw, backward: Raw, group: Group) -> Tensor:
        ctx.back, ctx.group = backward, group
        return forward(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.back(gradients[0], ctx.group), None, None, None


def all_reduce_forward(x: Tensor, group: Group = None) -> Tensor:
    """Partial sums become the sum, whose gradient is that of each of them."""
    return _Exchange.apply(x, reduced, identity, group)


def all_reduce_backward(x: Tensor, group: Group = None) -> Tensor:
    """What all ranks read: each has a partial sum of its gradient."""
    return _Exchange.apply(x, identity, reduced, group)


def gather_forward(x: Tensor, group: Group = None) -> Tensor:
    """What all ranks read, of whose tokens each has a part; the gradient is summed and cut."""
    return _Exchange.apply(x, gathered, scattered, group)


def scatter_forward(x: Tensor, group: Group = None) -> Tensor:
    """Partial sums become this rank's tokens of the sum; the gradient is gathered."""
    return _Exchange.apply(x, scattered, gathered, group)


def split_forward(x: Tensor, group: Group = None) -> Tensor:
    """This rank's tokens of what all have; the gradient is gathered."""
    return _Exchange.apply(x, own_tokens, gathered, group)
