"""A loss that never holds the logits of all tokens at once.

Shapes: n tokens, h width, V vocab rows. Logits are n V numbers, and V is many times h.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mathlib.checks import whole


class _AtOnce(torch.autograd.Function):
    """Forward computes the gradients as well, piece by piece: nothing is computed twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, pieces: int) -> Tensor:
        to_x, to_weight = torch.empty_like(x), torch.zeros_like(weight)
        total = x.new_zeros(())
        for rows, labels, to_rows in zip(
            *(t.chunk(pieces) for t in (x, targets, to_x)), strict=True
        ):
            total += _piece(rows, weight, labels, to_rows, to_weight)
        ctx.save_for_backward(to_x, to_weight)
        for gradient in (to_x, to_weight):
            gradient /= len(x)
        return total / len(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        to_x, to_weight = (one.mul_(gradients[0]) for one in ctx.saved_tensors)
        return to_x, to_weight, None, None


def _piece(
    rows: Tensor, weight: Tensor, labels: Tensor, to_rows: Tensor, to_weight: Tensor
) -> Tensor:
    """Sum of the losses of some tokens; what their logits' gradient gives is written and added."""
    logits = rows @ weight.T
    loss = F.cross_entropy(logits, labels, reduction="sum")
    logits -= logits.amax(1, keepdim=True)
    gradient = logits.exp_()
    gradient /= gradient.sum(1, keepdim=True)
    gradient[torch.arange(len(labels), device=labels.device), labels] -= 1
    torch.mm(gradient, weight, out=to_rows)
    to_weight.addmm_(gradient.T, rows)
    return loss


def chunked_loss(x: Tensor, weight: Tensor, targets: Tensor, *, pieces: int) -> Tensor:
    """Mean cross-entropy of `x @ weight.T`, for `pieces` of the tokens one after the other.

    Keeps the gradients of x and of the weight, n h + V h numbers, instead of n V; at its fullest
    it holds two tensors of n V / pieces.

    Chapter: activations (eq-chunked)
    """
    return _AtOnce.apply(x.flatten(0, -2), weight, targets.flatten(), whole("pieces", pieces))
