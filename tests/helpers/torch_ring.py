"""torch's own ring attention, of its context_parallel, on a CPU.

Its public context_parallel takes the kernels of GPUs only (torch 2.11 and 2.13 dispatch flash,
efficient and cudnn attention, and not the flash kernel of CPUs); the ring below it takes any.
"""

import torch
import torch.distributed as dist
from torch.distributed.tensor.experimental._context_parallel import _attention as own

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def flash(q, k, v, is_causal, **_):
    return FORWARD(q, k, v, 0.0, is_causal)


def flash_backward(grad_out, query, key, value, out, logsumexp, is_causal):
    return BACKWARD(grad_out, query, key, value, out, logsumexp, 0.0, is_causal)


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, order):
        own._cp_options.enable_load_balance = order == "zigzag"
        out, L = own._templated_ring_attention(dist.group.WORLD, 2, flash, q, k, v, is_causal=True)
        ctx.save_for_backward(q, k, v, out, L)
        ctx.order = order
        return out

    @staticmethod
    def backward(ctx, arrived):
        own._cp_options.enable_load_balance = ctx.order == "zigzag"
        backward = own._templated_ring_attention_backward
        found = backward(
            dist.group.WORLD, 2, flash_backward, arrived, "grad_out", *ctx.saved_tensors, True
        )
        return *found, None


def attention(order):
    """On this rank's part of the tokens, by the order's places."""
    return lambda q, k, v: Attend.apply(q, k, v, order)
