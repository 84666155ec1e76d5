"""The backward of a chunk in two parts: I, the gradient of its input, which the stage before waits
for, and W, the gradient of its weights, which can wait.

Of a matmul y = x W^T with input x and weight W, I does dx = dy W at once and keeps x and
dy, and W does dW = dy^T x.  The weights of norms and embeddings, which are no matmuls, get their
gradients with I.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.checks import InputError

Matmul = tuple[Tensor, Tensor | None, Tensor, Tensor]  # weight, bias, x, dy


class LaterWeights:
    """Matmuls whose weights' gradients are still to be formed, by the name of what waits."""

    def __init__(self) -> None:
        self.waiting: dict[Hashable, list[Matmul]] = {}
        self.name: Hashable | None = None  # of the I that runs now

    def watch(self, module: nn.Module) -> None:
        """Let every matmul of this module ask us before it forms its weight's gradient."""
        for part in module.modules():
            if isinstance(part, nn.Linear):
                part.forward = matmul_of(part, self)  # type: ignore

    @contextmanager
    def put_off(self, name: Hashable) -> Iterator[None]:
        """A backward inside the block keeps what `form(name)` needs."""
        self.waiting[name], self.name = [], name
        try:
            yield
        finally:
            self.name = None

    def form(self, name: Hashable) -> None:
        """Add the gradients that were put off under this name."""
        if name not in self.waiting:
            raise InputError(f"name = {name!r}: no backward was put off under it")
        for weight, bias, x, dy in self.waiting.pop(name):
            _add(weight, dy.T @ x)
            if bias is not None:
                _add(bias, dy.sum(0))


def matmul_of(part: nn.Linear, later: LaterWeights) -> Callable[[Tensor], Tensor]:
    return lambda x: SplitMatmul.apply(x, part.weight, part.bias, later)


def _add(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.requires_grad:
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class SplitMatmul(torch.autograd.Function):
    """y = x W^T + b; backward dx = dy W, and dW = dy^T x now or later."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, later: LaterWeights):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        ctx.leaves, ctx.later = (weight, bias), later
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor):  # type: ignore[no-untyped-def, override]
        (x, weight), later = ctx.saved_tensors, ctx.later
        dx = dy @ weight if ctx.needs_input_grad[0] else None
        rows, dys = x.flatten(0, -2), dy.flatten(0, -2)
        if later.name is not None:
            later.waiting[later.name].append((*ctx.leaves, rows, dys))
            return dx, None, None, None
        return dx, dys.T @ rows, None if ctx.leaves[1] is None else dys.sum(0), None
