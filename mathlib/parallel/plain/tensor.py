"""Tensor parallelism: every rank has a part of each matrix, and all of the tokens.

t   ranks      b s h   numbers of the residual stream, which every rank has whole

matrix                      a rank has      and computes
queries, keys, values, up   some columns    some heads, some of the MLP's numbers
attention's out, down       as many rows    a partial sum of b s h: all-reduce forward

All ranks read what a norm gives, and each has a part of its gradient: all-reduce
backward.  So a layer sends 4 times 2 b s h (t-1)/t in a step (Shoeybi et al. 2019).
Heads stay whole; ranks that share a key-value head add up its gradients.  All ranks
start from the same model, and take the same batch.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.tensor
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.model import oracle
from mathlib.parallel.plain import ring


def summed(x, group):
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, group=group)
    return x


class AllReduceForward(torch.autograd.Function):
    """Partial sums become the sum, whose gradient is that of each of them."""

    @staticmethod
    def forward(ctx, x, group):
        return summed(x, group)

    @staticmethod
    def backward(ctx, dx):
        return dx, None


class AllReduceBackward(torch.autograd.Function):
    """What all ranks read: each has a partial sum of its gradient."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dx):
        return summed(dx, ctx.group), None


def own(n: int, group) -> range:
    """This rank's share of n heads, features or vocabulary entries; at least one."""
    r, t = ring.place(group)
    return range(n * r // t, max(n * (r + 1) // t, n * r // t + 1))


def part(x: Tensor, dim: int, group, head: int = 1, matrices: int = 1) -> nn.Parameter:
    """This rank's heads, of each of so many matrices that stand end to end in x."""
    heads = x.detach().unflatten(dim, (matrices, -1, head))
    mine = torch.tensor(own(heads.shape[dim + 1], group))
    return nn.Parameter(heads.index_select(dim + 1, mine).flatten(dim, dim + 2))


class Columns(nn.Module):
    """Columns of W in x W, which torch.nn keeps transposed: rows of `weight`."""

    def __init__(self, whole: nn.Linear, group, head=1, matrices=1):
        super().__init__()
        self.weight, self.bias = part(whole.weight, 0, group, head, matrices), None
        if whole.bias is not None:
            self.bias = part(whole.bias, 0, group, head, matrices)
        ranks = dist.get_world_size(group) * head // whole.out_features  # of a head
        if ranks > 1:
            sharing, _ = dist.new_subgroups(ranks, group)
            self.weight.register_hook(lambda gradient: summed(gradient, sharing))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Rows(nn.Module):
    def __init__(self, whole: nn.Linear, group, head=1, add=AllReduceForward):
        super().__init__()
        self.weight, self.bias = part(whole.weight, 1, group, head), whole.bias
        self.add = lambda x: add.apply(x, group)

    def forward(self, x: Tensor) -> Tensor:
        y = self.add(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias  # once, not on each rank


def cut(model, group=None, read=AllReduceBackward, add=AllReduceForward) -> nn.Module:
    """Leave this rank its part of each block; all else stays whole."""
    for block in model.blocks:
        for module, head in (block.attention, block.attention.head_dim), (block.mlp, 1):
            for name, matrix in list(module.named_children()):
                if name in ("out", "down"):
                    setattr(module, name, Rows(matrix, group, head, add))
                else:
                    many = 3 if name == "qkv" else 1
                    setattr(module, name, Columns(matrix, group, head, many))
        for norm in (block.norm1, block.norm2):
            norm.register_forward_hook(lambda _, x, y: read.apply(y, group))
    return model


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.tensor("tensor", cut, oracle.loss)
