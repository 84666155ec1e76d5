"""Ulysses: ranks that have parts of the tokens of all heads exchange them for all tokens of a part
of the heads, attend, and exchange the result back (Jacobs et al. 2023, arXiv:2309.14509).

U ranks · B sequences · s tokens · a heads · k kv_heads · d head_dim
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.parallel.collectives import all_to_all

HEADS, TOKENS = 1, 2  # dims of B a s d
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def exchange(x: Tensor, give: int, get: int, group: ProcessGroup | None) -> Tensor:
    """Piece i along the dim `give` goes to rank i; what comes is joined along `get`."""
    sent = [piece.contiguous() for piece in x.chunk(dist.get_world_size(group), give)]
    received = [torch.empty_like(piece) for piece in sent]
    all_to_all(received, sent, group)
    return torch.cat(received, get)


class AllToAll(torch.autograd.Function):
    """All-to-all forward; all-to-all backward, the other way round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, give: int, get: int, group: ProcessGroup | None) -> Tensor:
        ctx.back = get, give, group
        return exchange(x, give, get, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return exchange(gradients[0], *ctx.back), None, None, None


class Ulysses:
    """Any causal attention on B a s d, for ranks that have s/U tokens each, in order."""

    def __init__(self, attention: Attention, group: ProcessGroup | None = None):
        self.attention, self.group = attention, group
        self.ranks = dist.get_world_size(group)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # B a s/U d, B k s/U d twice
        if self.ranks == 1:
            return self.attention(q, k, v)
        check_heads(self.ranks, heads=q.shape[HEADS], kv_heads=k.shape[HEADS])
        whole = (AllToAll.apply(x, HEADS, TOKENS, self.group) for x in (q, k, v))
        return AllToAll.apply(self.attention(*whole), TOKENS, HEADS, self.group)


def check_heads(ranks: int, *, heads: int, kv_heads: int) -> None:
    """Refuse ranks that would have to share a head."""
    for name, count in (("heads", heads), ("kv_heads", kv_heads)):
        if count % ranks:
            raise InputError(
                f"ulysses = {ranks}: does not divide {name} = {count}; expected a divisor of "
                f"heads = {heads} and of kv_heads = {kv_heads}, and the rest of the ranks in a ring"
            )
