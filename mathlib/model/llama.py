"""The layer of today with today's kernels: a norm that saves its input, grouped heads in one flash
kernel, a gated MLP. Without rotary positions, whose backward needs no number of a token.

Shapes: B sequences, S tokens, h width, a heads, k kv_heads, d head_dim, f ffn_width.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mathlib.model import modern
from mathlib.model.gpt import initialise
from mathlib.specs import Model

EPSILON = 1e-6


def _wide(x: Tensor) -> Tensor:
    """In 32 bits at the least, as a kernel computes."""
    return x if x.itemsize >= 4 else x.float()


class _OneKernel(torch.autograd.Function):
    """RMSNorm as a GPU's kernel keeps it: the input and one number a token. (On a CPU torch puts
    it together from small operations, which keep more.)
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        scale = torch.rsqrt(_wide(x).square().mean(-1, keepdim=True) + EPSILON)
        ctx.save_for_backward(x, weight, scale)
        return (_wide(x) * scale).to(x.dtype) * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (arrived,) = gradients
        x, weight, scale = ctx.saved_tensors
        normed = _wide(x) * scale
        inner = _wide(arrived) * _wide(weight)
        back = scale * (inner - normed * (inner * normed).mean(-1, keepdim=True))
        to_weight = (_wide(arrived) * normed).flatten(0, -2).sum(0)
        return back.to(x.dtype), to_weight.to(weight.dtype)


class Norm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return _OneKernel.apply(x, self.weight)


class Attention(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        h, a, k, d = model.width, model.heads, model.kv_heads, model.head_dim
        self.head_dim = d
        self.query = nn.Linear(h, a * d, bias=False)
        self.key = nn.Linear(h, k * d, bias=False)
        self.value = nn.Linear(h, k * d, bias=False)
        self.out = nn.Linear(a * d, h, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # B S h
        q, k, v = (
            matrix(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
            for matrix in (self.query, self.key, self.value)
        )  # B a S d, B k S d, B k S d
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.norm1, self.attention = Norm(model.width), Attention(model)
        self.norm2 = Norm(model.width)
        self.mlp = modern.Gated(model.width, model.ffn_width)

    def forward(self, x: Tensor) -> Tensor:  # B S h
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(modern.Decoder):
    """Llama's layers at any size, as its `specs.Model` says, for counting what they save."""

    def __init__(self, model: Model, seed: int = 0):
        super().__init__()
        modern.check_buildable(model)
        self.tokens = nn.Embedding(model.padded_vocab, model.width)
        self.blocks = nn.ModuleList(Block(model) for _ in range(model.layers))
        self.norm = Norm(model.width)
        self.head = nn.Linear(model.width, model.padded_vocab, bias=False)
        initialise(self, seed)
