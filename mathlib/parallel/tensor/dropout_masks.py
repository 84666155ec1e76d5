"""Dropout alike on tensor ranks where they have the same numbers, unlike where they have not.

t tensor ranks · a heads · b s h   numbers of the residual stream · s/t   tokens of a rank
What every rank has whole must be dropped alike, or the ranks train different models. What each has
a part of, heads or tokens, must be dropped unlike, as one process would. Here every mask is that
of one process on any degree: a head has a generator of its own, tokens are cut from the whole mask.
The generators' seed comes from torch's own generator, which stands alike on all ranks and which
recomputation sets back (Megatron keeps a second state on each rank instead).
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib.checks import InputError
from mathlib.parallel.tensor.conjugates import own_tokens
from mathlib.parallel.tensor.split_matrices import Exchange


class _Drop(torch.autograd.Function):
    """Zero where the mask says, the rest larger by 1/(1 - p); keeps a byte a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, p: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.p = p
        return x * kept / (1 - p)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (kept,) = ctx.saved_tensors
        return gradients[0] * kept / (1 - ctx.p), None, None


def drawn(shape: Iterable[int], p: float, seed: int, x: Tensor) -> Tensor:
    """True with chance 1 - p."""
    draw = torch.Generator(x.device).manual_seed(seed)
    return torch.rand(tuple(shape), generator=draw, device=x.device) >= p


def next_seed() -> int:
    """From torch's generator: the same on all ranks, and again when a layer is recomputed."""
    return int(torch.randint(2**40, ()))


def stream(x: Tensor, p: float, how: Exchange) -> Tensor:  # b s h, or b s/t h
    """Drop of the residual stream: alike, or this rank's tokens of it."""
    b, s, h = x.shape
    whole = s * dist.get_world_size(how.group) if how.sequence_parallel else s
    kept = drawn((b, whole, h), p, next_seed(), x)
    return _Drop.apply(x, own_tokens(kept, how.group) if how.sequence_parallel else kept, p)


def by_heads(x: Tensor, p: float, heads: range) -> Tensor:  # b a/t s s
    """Drop of each head's scores by a generator of its own, whichever rank has it."""
    seed, (b, _, *rest) = next_seed(), x.shape
    kept = torch.stack([drawn((b, *rest), p, seed + 1 + head, x) for head in heads], 1)
    return _Drop.apply(x, kept, p)


def attention(q: Tensor, k: Tensor, v: Tensor, *, p: float, heads: range) -> Tensor:
    """gpt.plain_attention with dropout of what the softmax gives."""
    S = q.shape[-2]
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # b a/t s s
    future = torch.ones(S, S, dtype=torch.bool, device=q.device).triu(1)
    return by_heads(scores.masked_fill(future, float("-inf")).softmax(-1), p, heads) @ v


def check_seeds(how: Exchange) -> None:
    """Refuse ranks whose generators do not start alike."""
    seeds: list[int] = [0] * dist.get_world_size(how.group)
    dist.all_gather_object(seeds, torch.initial_seed(), how.group)
    if len(set(seeds)) > 1:
        raise InputError(
            f"torch.initial_seed() = {', '.join(map(str, seeds))} on the ranks: expected one, by "
            "torch.manual_seed, so that all drop alike"
        )
