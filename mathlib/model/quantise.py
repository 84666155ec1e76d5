"""Weights as whole numbers of 4 or 8 bits: a scale for a tensor, for each of its rows, or for each
block of a row; rounded to nearest, or with every error passed on to the weights still to come. And
weights in any small type whose values share a scale.

W weights [outputs, inputs] · X input [tokens, inputs]
The Hessian of a layer's error is X^T X; U is the upper triangle with U^T U its inverse.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite, log2
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mathlib.checks import InputError, one_of, whole
from mathlib.memory import bits as patterns
from mathlib.memory.precision import number_type

SHARED = ("tensor", "row", "block")
BITS = (2, 3, 4, 8)


class Quantised(NamedTuple):
    """Whole numbers and their scales."""

    numbers: Tensor  # int8, also where fewer bits are used
    scales: Tensor  # fp32, as many as share none

    @property
    def values(self) -> Tensor:
        """What is left of the weights."""
        rows, columns = self.numbers.shape
        parts = self.numbers.float().view(*self._groups(), -1)
        return (parts * self.scales[..., None]).view(rows, columns)

    def _groups(self) -> tuple[int, int]:
        rows, groups = self.scales.shape
        return rows, groups


def largest(bits: int) -> int:
    """The largest number that has its opposite: 127 of 8 bits, 7 of 4."""
    return 2 ** (one_of("bits", bits, BITS) - 1) - 1


def scales_of(weight: Tensor, bits: int, shared: str, block: int = 32) -> Tensor:
    """The largest of those that share a scale over the largest number: max |w| / (2**(b-1) - 1).

    Chapter: precision (eq-absmax)
    """
    rows, columns = weight.shape
    one_of("shared", shared, SHARED)
    if columns % whole("block", block) and shared == "block":
        raise InputError(f"block = {block}: expected a divisor of the {columns} inputs")
    shape = {"tensor": (1, 1), "row": (rows, 1), "block": (rows, columns // block)}[shared]
    parts = weight.reshape(*shape, -1).abs().amax(-1) / largest(bits)
    return parts.clamp(min=torch.finfo(torch.float32).tiny)


def nearest(weight: Tensor, bits: int = 8, shared: str = "row", block: int = 32) -> Quantised:
    """Each weight by itself: round(w / scale).

    Chapter: precision (eq-absmax)
    """
    scales, rows = scales_of(weight, bits, shared, block), len(weight)
    parts = weight.reshape(*scales.shape, -1) / scales[..., None]
    return Quantised(parts.round().to(torch.int8).view(rows, -1), scales)


@cache
def numbers_of(dtype: str) -> tuple[Tensor, Tensor]:
    """The finite numbers of a small type from its bits, and the places half way between them."""
    found = {patterns.decode(pattern, dtype) for pattern in patterns.patterns(dtype)}
    values = torch.tensor(sorted(x for x in found if isfinite(x)), dtype=torch.double)
    return values, (values[1:] + values[:-1]) / 2


def rounded_to(values: Tensor, dtype: str) -> Tensor:
    """Each value as the nearest number of a small type; beyond the largest, the largest."""
    numbers, between = numbers_of(dtype)
    return numbers[torch.bucketize(values.double(), between)]


def in_blocks(weight: Tensor, dtype: str, block: int = 0) -> Tensor:
    """What is left of weights in a small type whose values share a scale, by the rules of
    `bits.block`: a power of two, or the largest over the type's largest.

    A type that is no block format takes a `block` and fp32 scales. Scales in fp8 (nvfp4) would be
    too small for most weights, so a tensor has one more scale, which makes the largest of them 448
    (NVIDIA 2025, arXiv:2509.25149).

    Chapter: precision
    """
    kind, numbers = number_type(dtype), numbers_of(dtype)[0]
    size, top = whole("block", block or kind.block), float(numbers[-1])
    if weight.numel() % size:
        raise InputError(f"block = {size}: expected a divisor of the {weight.numel()} weights")
    parts = weight.double().reshape(-1, size)
    most = parts.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    if kind.scale == "e8m0":
        scales = 2.0 ** (most.log2().floor() - int(log2(top)))
    elif kind.scale:
        whole_tensor = most.max() / top / float(numbers_of(kind.scale)[0][-1])
        scales = rounded_to(most / top / whole_tensor, kind.scale) * whole_tensor
    else:
        scales = most / top
    return (rounded_to(parts / scales, dtype) * scales).float().view_as(weight)


def with_feedback(
    weight: Tensor,
    inputs: Tensor,
    bits: int = 4,
    shared: str = "row",
    block: int = 32,
    damp: float = 0.01,
) -> Quantised:
    """GPTQ: column by column, and what a column's rounding changes in X W^T is taken back by the
    columns to come (Frantar et al. 2023, section 3).

    The least error of the layer's output needs U, the upper Cholesky factor of H's inverse: the
    error of column j over U_jj times U_j,k is taken off column k.

    Chapter: precision (eq-feedback)
    """
    W, U = weight.double().clone(), _upper(inputs.double(), damp)
    most, numbers, found = largest(bits), torch.empty_like(weight, dtype=torch.int8), []
    whole_scales = scales_of(weight, bits, shared, block)
    for j in range(W.shape[1]):
        if shared == "block":
            if j % block == 0:  # the scale of what the errors so far have made of the block
                found.append(scales_of(W[:, j : j + block].float(), bits, "row"))
            scale = found[-1].double()
        else:
            scale = whole_scales.double()
        column = W[:, j : j + 1]
        q = (column / scale).round().clamp(-most, most)
        W[:, j:] -= (column - q * scale) / U[j, j] @ U[j : j + 1, j:]
        numbers[:, j] = q[:, 0].to(torch.int8)
    return Quantised(numbers, torch.cat(found, 1) if found else whole_scales)


def _upper(X: Tensor, damp: float) -> Tensor:
    """The upper Cholesky factor of the inverse of X^T X, which is damped so that it has one."""
    H = X.T @ X
    H += damp * H.diagonal().mean() * torch.eye(len(H), dtype=H.dtype, device=H.device)
    return torch.linalg.cholesky(torch.linalg.inv(H), upper=True)


def linears(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers of a model by name; a head that is the embedding table, too."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}


def inputs_of(model: nn.Module, *batch: Tensor) -> dict[str, Tensor]:
    """What every linear layer of a model gets [tokens, inputs] when the model sees a batch."""
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda layer, given, output: seen.__setitem__(name, given[0].detach().flatten(0, -2))

    hooks = [layer.register_forward_hook(keep(name)) for name, layer in linears(model).items()]
    with torch.no_grad():
        model(*batch)
    for hook in hooks:
        hook.remove()
    return seen


@contextmanager
def weights(model: nn.Module, found: dict[str, Tensor]) -> Iterator[nn.Module]:
    """The model with other weights of its linear layers inside the block."""
    layers = linears(model)
    was = {name: layers[name].weight.detach().clone() for name in found}
    try:
        _write(layers, found.items())
        yield model
    finally:
        _write(layers, was.items())


@torch.no_grad()
def _write(layers: dict[str, nn.Linear], found: Iterable[tuple[str, Tensor]]) -> None:
    for name, weight in found:
        layers[name].weight.copy_(weight)
