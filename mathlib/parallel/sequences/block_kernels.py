"""Attention to a block of keys, as a ring puts it together: a result that is normed within the
block, and L, the logarithm of each query's sum of exp(score); the gradients need only the whole L.

Shapes: B sequences, a heads, k kv_heads, S queries, C keys, d head_dim. Queries, result B a S d;
keys, values B k C d; of L B a S. Causal: key j is hidden from query i if j > i.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mathlib.checks import InputError

Three = tuple[Tensor, Tensor, Tensor]
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Kernel(NamedTuple):
    """(q, k, v, causal) to (out, L); with out's gradient, out and L of all blocks to dq, dk, dv."""

    forward: Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, bool], Three]


def wide(x: Tensor) -> torch.dtype:
    """In what its sums are kept: 32 bits at least."""
    return torch.promote_types(x.dtype, torch.float32)


def _scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")) if causal else scores


def _written_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    scores = _scores(q.to(wide(q)), k.to(wide(q)), causal)
    return scores.softmax(-1) @ v.to(wide(q)), scores.logsumexp(-1)


def _written_backward(
    arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, L: Tensor, causal: bool
) -> Three:
    arrived, q, k, v, out = (x.to(wide(q)) for x in (arrived, q, k, v, out))
    weights = (_scores(q, k, causal) - L[..., None]).exp()
    inner = (arrived * out).sum(-1, keepdim=True)
    to_scores = weights * (arrived @ v.mT - inner) * q.shape[-1] ** -0.5
    return to_scores @ k, to_scores.mT @ q, weights.mT @ arrived


def _flash_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    _on_cpu(q)
    return _flash(q, k, v, 0.0, causal)


def _flash_gradients(
    arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, L: Tensor, causal: bool
) -> Three:
    return _flash_backward(arrived, q, k, v, out, L, 0.0, causal)


def _on_cpu(x: Tensor) -> None:
    if x.device.type != "cpu":
        raise InputError(
            f"kernel = 'flash' on {x.device.type}: expected tensors on cpu, or kernel = 'written'"
        )


KERNELS = {
    "flash": Kernel(_flash_forward, _flash_gradients),  # torch's own on a CPU
    "written": Kernel(_written_forward, _written_backward),
}


def each_query(kv: Tensor, heads: int) -> Tensor:  # 2 B k C d -> 2 B a C d
    """A head of keys and values once for each head of queries that it serves."""
    group = heads // kv.shape[2]
    return kv if group == 1 else kv.repeat_interleave(group, 2)


def each_key(gradients: Tensor, heads: int) -> Tensor:  # 2 B a C d -> 2 B k C d
    """Its gradient: the sum over the queries' heads that it served."""
    return gradients if gradients.shape[2] == heads else gradients.unflatten(2, (heads, -1)).sum(3)


def add_block(out: Tensor, L: Tensor, block: Tensor, block_L: Tensor) -> None:
    """Add a block's result to that of the blocks before, in place (Milakov and Gimelshein 2018).

    Chapter: sequences (eq-merge)
    """
    total = torch.logaddexp(L, block_L)
    out.mul_((L - total).exp()[..., None]).add_(block * (block_L - total).exp()[..., None])
    L.copy_(total)
