"""A transformer block cut for tensor parallelism, in the manner of Megatron (Shoeybi et al. 2019,
section 3): each rank has some of the heads and some of the MLP's rows.

t tensor · a heads · h width · b sequences · s tokens
Products of the first matrices need no exchange; those of the second are partial sums, which are
added up over the ranks: twice in the forward of a block, and twice in its backward.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.checks import divides
from mathlib.model.gpt import GPT, Block, plain_attention


class Sum(torch.autograd.Function):
    """Partial sums become the whole; the gradient of a sum is that of each part."""

    @staticmethod
    def forward(context, x):  # type: ignore[no-untyped-def]
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        return gradient


class Copy(torch.autograd.Function):
    """What every rank reads; each has a part of its gradient, and these are added up."""

    @staticmethod
    def forward(context, x):  # type: ignore[no-untyped-def]
        return x

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Slice(nn.Module):
    """This rank's part of a block: a/t heads, and 1/t of the MLP."""

    def __init__(self, block: Block):
        super().__init__()
        own, mlp, t = block.attention, block.mlp, dist.get_world_size()
        self.heads = own.heads // divides("ranks", t, "heads", own.heads)
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.qkv, self.qkv_bias = _heads(own.qkv.weight), _heads(own.qkv.bias)
        self.out, self.out_bias = _mine(own.out.weight, 1), own.out.bias
        self.up, self.up_bias = _mine(mlp.up.weight), _mine(mlp.up.bias)
        self.down, self.down_bias = _mine(mlp.down.weight, 1), mlp.down.bias

    def forward(self, x: Tensor) -> Tensor:  # b s h
        b, s, _ = x.shape
        joint = F.linear(Copy.apply(self.norm1(x)), self.qkv, self.qkv_bias)
        q, k, v = joint.view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = plain_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + Sum.apply(F.linear(y, self.out)) + self.out_bias
        y = F.gelu(F.linear(Copy.apply(self.norm2(x)), self.up, self.up_bias))
        return x + Sum.apply(F.linear(y, self.down)) + self.down_bias

    def whole_gradients(self) -> dict[str, Tensor]:
        """The gradients of the block that was cut, by its names; every rank must call this."""
        found = {
            "attention.qkv.weight": _joined(self.qkv, 1, 3),
            "attention.qkv.bias": _joined(self.qkv_bias, 1, 3),
            "attention.out.weight": _joined(self.out, 1),
            "attention.out.bias": self.out_bias.grad,
            "mlp.up.weight": _joined(self.up, 0),
            "mlp.up.bias": _joined(self.up_bias, 0),
            "mlp.down.weight": _joined(self.down, 1),
            "mlp.down.bias": self.down_bias.grad,
        }
        norms = {"norm1": self.norm1, "norm2": self.norm2}
        for name, norm in norms.items():
            found |= {f"{name}.{kind}": p.grad for kind, p in norm.named_parameters()}
        return found  # type: ignore[return-value]


def cut(model: GPT) -> GPT:
    """Every block of a model becomes this rank's slice of it; all else stays whole."""
    model.blocks = nn.ModuleList(Slice(block) for block in model.blocks)  # type: ignore[arg-type]
    return model


def whole_gradients(model: GPT) -> dict[str, Tensor]:
    """All gradients of a model that was cut, by the names they have in the whole one."""
    found = {name: p.grad for name, p in model.named_parameters() if not name.startswith("blocks.")}
    for i, block in enumerate(model.blocks):
        found |= {f"blocks.{i}.{name}": g for name, g in block.whole_gradients().items()}  # type: ignore[operator]
    return found  # type: ignore[return-value]


def _heads(x: Tensor) -> nn.Parameter:
    """Of 3 h rows, q, k and v of all heads, those of this rank's heads."""
    r, t = dist.get_rank(), dist.get_world_size()
    return nn.Parameter(x.view(3, t, -1)[:, r].reshape(-1, *x.shape[1:]).detach().clone())


def _mine(x: Tensor, dim: int = 0) -> nn.Parameter:
    return nn.Parameter(x.chunk(dist.get_world_size(), dim)[dist.get_rank()].detach().clone())


def _joined(parameter: Tensor, dim: int, parts: int = 1) -> Tensor:
    """All ranks' gradients of a slice, side by side; of q, k and v each for itself."""
    mine = parameter.grad
    assert mine is not None
    mine = mine.view(parts, -1, *mine.shape[1:]) if parts > 1 else mine
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine.contiguous())
    joined = torch.cat(every, dim)
    return joined.flatten(0, 1) if parts > 1 else joined
