"""A transformer block cut for tensor parallelism, in the manner of Megatron (Shoeybi et al. 2019,
section 3): each rank has some of the heads and some of the MLP's rows.

t tensor · a heads · h width · b sequences · s tokens
Products of the first matrices need no exchange; those of the second are partial sums, which are
added up over the ranks: twice in the forward of a block, and twice in its backward.
The ranks are those of a group, so that a grid of ranks may cut along other axes as well.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import divides
from mathlib.model.gpt import GPT, Block, plain_attention
from mathlib.parallel.pipeline.model_chunks import Chunk

Group = ProcessGroup | None
Cut = TypeVar("Cut", GPT, Chunk)
Of = Callable[[nn.Parameter], Tensor]  # what of a parameter is joined: its numbers, its gradient


class Sum(torch.autograd.Function):
    """Partial sums become the whole; the gradient of a sum is that of each part."""

    @staticmethod
    def forward(context, x, group):  # type: ignore[no-untyped-def]
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        return gradient, None


class Copy(torch.autograd.Function):
    """What every rank reads; each has a part of its gradient, and these are added up."""

    @staticmethod
    def forward(context, x, group):  # type: ignore[no-untyped-def]
        context.group = group
        return x

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class Slice(nn.Module):
    """This rank's part of a block: a/t heads, and 1/t of the MLP."""

    def __init__(self, block: Block, group: Group = None):
        super().__init__()
        own, mlp, t = block.attention, block.mlp, dist.get_world_size(group)
        whole = own.out.in_features // own.head_dim
        self.group, self.heads = group, whole // divides("ranks", t, "heads", whole)
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.qkv, self.qkv_bias = _heads(own.qkv.weight, group), _heads(own.qkv.bias, group)
        self.out, self.out_bias = _mine(own.out.weight, group, 1), own.out.bias
        self.up, self.up_bias = _mine(mlp.up.weight, group), _mine(mlp.up.bias, group)
        self.down, self.down_bias = _mine(mlp.down.weight, group, 1), mlp.down.bias

    def forward(self, x: Tensor) -> Tensor:  # b s h
        b, s, _ = x.shape
        joint = F.linear(Copy.apply(self.norm1(x), self.group), self.qkv, self.qkv_bias)
        q, k, v = joint.view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = plain_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + Sum.apply(F.linear(y, self.out), self.group) + self.out_bias
        y = F.gelu(F.linear(Copy.apply(self.norm2(x), self.group), self.up, self.up_bias))
        return x + Sum.apply(F.linear(y, self.down), self.group) + self.down_bias

    def whole(self, of: Of) -> dict[str, Tensor]:
        """What the block that was cut would have, by its names; every rank must call this."""
        found = {
            "attention.qkv.weight": _joined(of(self.qkv), self.group, 1, 3),
            "attention.qkv.bias": _joined(of(self.qkv_bias), self.group, 1, 3),
            "attention.out.weight": _joined(of(self.out), self.group, 1),
            "attention.out.bias": of(self.out_bias),
            "mlp.up.weight": _joined(of(self.up), self.group, 0),
            "mlp.up.bias": _joined(of(self.up_bias), self.group, 0),
            "mlp.down.weight": _joined(of(self.down), self.group, 1),
            "mlp.down.bias": of(self.down_bias),
        }
        norms = {"norm1": self.norm1, "norm2": self.norm2}
        for name, norm in norms.items():
            found |= {f"{name}.{kind}": of(p) for kind, p in norm.named_parameters()}
        return found


def cut(model: Cut, group: Group = None) -> Cut:
    """Every block of a model, or of a pipeline's chunk, becomes this rank's slice of it; all else
    stays whole.
    """
    for name, block in list(model.blocks.named_children()):
        model.blocks.register_module(name, Slice(block, group))  # type: ignore[arg-type]
    return model


def whole_gradients(model: GPT | Chunk) -> dict[str, Tensor]:
    """All gradients of a model that was cut, by the names they have in the whole one."""
    return _whole(model, _gradient)


def whole_weights(model: GPT | Chunk) -> dict[str, Tensor]:
    """All parameters of a model that was cut, as they are now, by those names."""
    return _whole(model, lambda p: p.detach().clone())


def _whole(model: GPT | Chunk, of: Of) -> dict[str, Tensor]:
    found = {n: of(p) for n, p in model.named_parameters() if not n.startswith("blocks.")}
    for i, block in model.blocks.named_children():
        found |= {f"blocks.{i}.{name}": t for name, t in block.whole(of).items()}  # type: ignore[operator]
    return found


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _heads(x: Tensor, group: Group) -> nn.Parameter:
    """Of 3 h rows, q, k and v of all heads, those of this rank's heads."""
    r, t = dist.get_rank(group), dist.get_world_size(group)
    return nn.Parameter(x.view(3, t, -1)[:, r].reshape(-1, *x.shape[1:]).detach().clone())


def _mine(x: Tensor, group: Group, dim: int = 0) -> nn.Parameter:
    r, t = dist.get_rank(group), dist.get_world_size(group)
    return nn.Parameter(x.chunk(t, dim)[r].detach().clone())


def _joined(mine: Tensor, group: Group, dim: int, parts: int = 1) -> Tensor:
    """All ranks' pieces of a tensor, side by side; of q, k and v each for itself."""
    mine = mine.view(parts, -1, *mine.shape[1:]) if parts > 1 else mine
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, mine.contiguous(), group=group)
    joined = torch.cat(every, dim)
    return joined.flatten(0, 1) if parts > 1 else joined
