"""Matrices of which a rank has some columns or some rows, with the exchange that belongs to them.

t tensor ranks · b s h   numbers of the residual stream · s/t   tokens of a rank
With sequence parallelism a matmul reads s/t tokens of every rank. It keeps its own s/t and gathers
the others' again in the backward pass, so that what is kept is divided by t (Korthikanti et al.
2022, section 4.2.2); the gather hides behind the input's gradient, the reduce-scatter behind the
weight's.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.tensor import conjugates, token_rings
from mathlib.parallel.tensor.conjugates import begin_gather, begin_scatter, gathered, in_order
from mathlib.records import dataclass

Group = ProcessGroup | None


@dataclass(frozen=True)
class Exchange:
    """How the tensor ranks work together."""

    group: Group = None
    sequence_parallel: bool = False  # outside the matrices a rank has s/t tokens
    chunked: bool = False  # matmuls in t chunks of tokens, which hide what is exchanged


def slope(dy: Tensor, x: Tensor) -> Tensor:
    """The gradient of a matrix that made y of x."""
    return dy.flatten(0, 1).T @ x.flatten(0, 1)


class GatherMatmul(torch.autograd.Function):
    """All ranks' tokens times some matrices; gathered again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, how: Exchange, *weights: Tensor) -> Any:
        ctx.save_for_backward(x, *weights)
        ctx.how = how
        if how.chunked:
            return tuple(token_rings.gather_matmul(x, weights, how.group))
        whole = gathered(x, how.group)
        return tuple(F.linear(whole, weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, *weights), group = ctx.saved_tensors, ctx.how.group
        row, arriving = begin_gather(x, group)
        dx = sum((dy @ w for dy, w in zip(gradients, weights, strict=True)), torch.zeros(()))
        leaving = begin_scatter(dx, group)
        arriving.wait()
        whole = in_order(row)
        slopes = [slope(dy, whole) for dy in gradients]
        leaving[-1].wait()
        return leaving[1].sum(0), None, *slopes


class MatmulScatter(torch.autograd.Function):
    """This rank's tokens of the sum of all ranks' matmuls, in chunks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, how: Exchange, weight: Tensor) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.how = how
        return token_rings.matmul_scatter(x, weight, how.group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, weight), group = ctx.saved_tensors, ctx.how.group
        whole = gathered(gradients[0], group)
        return whole @ weight, None, slope(whole, x)


class Reading:
    """Matrices that read the same tensor, one after the other: what is exchanged for all of them is
    exchanged once.
    """

    def __init__(self, how: Exchange):
        self.how, self.columns = how, list[Columns]()
        self.results, self.x = dict[int, Tensor](), None

    def result(self, x: Tensor, column: "Columns") -> Tensor:
        """x times this column matrix; the first that asks computes all."""
        if self.x is not x or id(column) not in self.results:
            weights = [one.weight for one in self.columns]
            self.results = dict(zip(map(id, self.columns), self.all(x, weights), strict=True))
            self.x = x  # type: ignore[assignment]
        found = self.results.pop(id(column))
        if not self.results:
            self.x = None
        return found

    def all(self, x: Tensor, weights: list[nn.Parameter]) -> Any:
        """x times each matrix, without biases."""
        if self.how.sequence_parallel:
            return GatherMatmul.apply(x, self.how, *weights)
        x = conjugates.all_reduce_backward(x, self.how.group)
        return [F.linear(x, weight) for weight in weights]


class Columns(nn.Module):
    """Columns of W in x W, which torch.nn keeps transposed: rows of `weight`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, reading: Reading):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.reading = reading
        reading.columns.append(self)

    def forward(self, x: Tensor) -> Tensor:  # b s h, or b s/t h, -> b s o/t
        y = self.reading.result(x, self)
        return y if self.bias is None else y + self.bias


class Rows(nn.Module):
    """As many rows of W; the bias is added to the sum, once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, how: Exchange):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:  # b s i/t -> b s h, or b s/t h
        how = self.how
        if how.sequence_parallel and how.chunked:
            y = MatmulScatter.apply(x, how, self.weight)
        else:
            add = conjugates.scatter_forward if how.sequence_parallel else None
            add = add or conjugates.all_reduce_forward
            y = add(F.linear(x, self.weight), how.group)
        return y if self.bias is None else y + self.bias
