"""The one small GPT of all runs, built from the same `specs.Model` that the formulas read.

Shapes: B sequences, S tokens, h width, a heads, d = h/a, f ffn_width, V vocab rows.
"""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mathlib.checks import InputError, one_of
from mathlib.specs import Model


def plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores written out, so that each of the two matmuls and every tensor between them can be
    counted.
    """
    S = q.shape[-2]
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # B a S S
    future = torch.ones(S, S, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v  # B a S d


flash_attention = partial(F.scaled_dot_product_attention, is_causal=True)
ATTENTION: dict[str, Callable[..., Tensor]] = {"plain": plain_attention, "flash": flash_attention}


class Attention(nn.Module):
    def __init__(self, model: Model, attention: str, recompute: str):
        super().__init__()
        self.head_dim, self.core = model.head_dim, ATTENTION[attention]
        self.recompute = recompute == "selective"
        self.qkv = nn.Linear(model.width, 3 * model.width, bias=model.qkv_bias)
        self.out = nn.Linear(model.width, model.width, bias=model.output_bias)

    def each_head(self, x: Tensor) -> Tensor:  # B S h -> 3 B a S d
        """Queries, keys and values, head by head; tensor parallelism leaves fewer heads."""
        return self.qkv(x).unflatten(-1, (3, -1, self.head_dim)).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:  # B S h
        q, k, v = self.each_head(x)
        y = (
            checkpoint(self.core, q, k, v, use_reentrant=False)
            if self.recompute
            else self.core(q, k, v)
        )  # B a S d
        return self.out(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.up = nn.Linear(model.width, model.ffn_width, bias=model.mlp_bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=model.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))  # B S h -> B S f -> B S h


class Block(nn.Module):
    def __init__(self, model: Model, attention: str = "plain", recompute: str = "none"):
        super().__init__()
        self.norm1, self.attention = (
            nn.LayerNorm(model.width),
            Attention(model, attention, recompute),
        )
        self.norm2, self.mlp = nn.LayerNorm(model.width), MLP(model)

    def forward(
        self, x: Tensor, attention: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:  # B S h
        """`attention`: what to call instead of the block's own, such as one with a cache."""
        x = x + (attention or self.attention)(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """GPT-2's architecture; `attention` plain or flash; `recompute` none, selective (the core) or
    full (blocks).
    """

    def __init__(
        self, model: Model, attention: str = "plain", recompute: str = "none", seed: int = 0
    ):
        super().__init__()
        check_buildable(model)
        one_of("attention", attention, ATTENTION)
        self.model, self.recompute = (
            model,
            one_of("recompute", recompute, ("none", "selective", "full")),
        )
        self.tokens = nn.Embedding(model.padded_vocab, model.width)
        self.positions = nn.Embedding(model.position_rows, model.width)
        self.blocks = nn.ModuleList(Block(model, attention, recompute) for _ in range(model.layers))
        self.norm = nn.LayerNorm(model.width)
        self.head = nn.Linear(model.width, model.padded_vocab, bias=model.head_bias)
        if model.tied:
            self.head.weight = self.tokens.weight
        initialise(self, seed)

    def forward(self, tokens: Tensor, places: Tensor | None = None) -> Tensor:  # B S -> B S V
        """`places` says where each of S tokens stands in its sequence; None: they are the first."""
        rows = slice(tokens.shape[1]) if places is None else places
        x = self.tokens(tokens) + self.positions.weight[rows]  # B S h
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute == "full" else block(x)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats over all tokens of the batch."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


def check_buildable(model: Model) -> None:
    """Refuse what this GPT is not, rather than run another model than the formula counts."""
    wanted = {
        "positions": "learned",
        "norm": "layernorm",
        "block_norms": 2,
        "gated": False,
        "kv_heads": model.heads,
        "head_dim": model.width // model.heads,
        "final_norm": True,
        "embedding_norm": False,
        "query_key_norm": "",
        "attention_sinks": False,
        "parallel_block": False,
        "window": None,
        "latent": None,
        "experts": None,
    }
    for name, value in wanted.items():
        if getattr(model, name) != value:
            raise InputError(
                f"{name} = {getattr(model, name)!r}: this GPT is built with {name} = {value!r} only"
            )


@torch.no_grad()
def initialise(module: nn.Module, seed: int = 0, prefix: str = "") -> None:
    """Every parameter from its own name: a shard, a stage and the whole model start from the same
    numbers.
    """
    for name, parameter in module.named_parameters(prefix):
        if not parameter.is_meta:
            fill(name, parameter, seed)


@torch.no_grad()
def fill(name: str, parameter: Tensor, seed: int = 0) -> None:
    """The first numbers of the parameter of this name."""
    if name.endswith("bias"):
        parameter.zero_()
    elif parameter.dim() == 1:
        parameter.fill_(1.0)
    else:
        draw = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
        parameter.copy_(0.02 * torch.randn(parameter.shape, generator=draw))


def small(
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    vocab: int = 64,
    context: int = 32,
    **changes: Any,
) -> Model:
    """A shape small enough for a laptop, without dropout; the book's runs start from it."""
    shape: dict[str, Any] = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "vocab": vocab,
        "context": context,
    }
    return Model("small", **shape | {"dropout": False} | changes)
