"""Slow ranks: layers that sleep instead of computing, so that little depends on what else the
machine does.
"""

import time
from typing import Any

import torch
from torch import Tensor


class Sleep(torch.autograd.Function):
    """Computes for some seconds forward, and twice as long backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        time.sleep(2 * ctx.seconds)
        return gradients[0], None
