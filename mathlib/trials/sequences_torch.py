"""torch's own ring attention beside ours, on a CPU.

Its public context_parallel dispatches the kernels of GPUs only (flash, efficient, cudnn), and
refuses the flash kernel of CPUs; the ring below it takes any kernel.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import _attention as own

from mathlib.parallel.sequences.ring import Ring

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _flash(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, **_: Any) -> tuple[Tensor, Tensor]:
    return FORWARD(q, k, v, 0.0, is_causal)


def _flash_backward(*, grad_out: Tensor, is_causal: bool, **saved: Tensor) -> tuple[Tensor, ...]:
    names = ("query", "key", "value", "out", "logsumexp")
    return BACKWARD(grad_out, *(saved[name] for name in names), 0.0, is_causal)


class _Attend(torch.autograd.Function):
    """Forward blocks are gathered; backward again, and their gradients go round and home."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, order: str) -> Tensor:
        own._cp_options.enable_load_balance = order == "zigzag"
        attend: Any = own._templated_ring_attention
        out, L = attend(dist.group.WORLD, 2, _flash, q, k, v, is_causal=True)
        ctx.save_for_backward(q, k, v, out, L)
        ctx.order = order
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        own._cp_options.enable_load_balance = ctx.order == "zigzag"
        attend: Any = own._templated_ring_attention_backward
        saved = ("grad_out", *ctx.saved_tensors)
        found = attend(dist.group.WORLD, 2, _flash_backward, gradients[0], *saved, is_causal=True)
        return *found, None


def ring_attention(order: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """torch's, of queries, keys and values with as many heads, on this rank's tokens."""
    return lambda q, k, v: _Attend.apply(q, k, v, order)


def apart(order: str) -> float:
    """How far torch's result is from our ring's, on this rank's tokens."""
    draw = torch.Generator().manual_seed(dist.get_rank())
    q, k, v = (torch.randn(1, 2, 8, 4, generator=draw) for _ in range(3))
    return (ring_attention(order)(q, k, v) - Ring(order)(q, k, v)).abs().max().item()


def public() -> str:
    """What torch's context_parallel says to attention on CPUs; nothing, if it attends."""
    q, k, v = (torch.ones(1, 2, 4 * dist.get_world_size(), 4) for _ in range(3))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    try:
        with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
    except NotImplementedError as error:
        return str(error)
    return ""
