"""Adapters: small matrices beside frozen ones (LoRA), and frozen ones held in 4 bits (QLoRA).

W weight [outputs, inputs], frozen · A [r, inputs] · B [outputs, r] · r rank
"""

from collections.abc import Collection
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.checks import InputError, one_of, positive, whole
from mathlib.model.quantise import numbers_of

# Names as in `compute.params.matrices`, and where a Llama's block has them.
PLACES = {
    **{name: f"attention.{name}" for name in ("query", "key", "value")},
    "output": "attention.out",
    **{name: f"mlp.{name}" for name in ("gate", "up", "down")},
}
BLOCK, SECOND = 64, 256  # numbers that share a scale, scales that share one


class Adapted(nn.Module):
    """y = x W^T + alpha / r (x A^T) B^T, where only A and B are trained (Hu et al. 2021, section
    4.1). B is zero at first, so that nothing has changed.
    """

    def __init__(
        self,
        base: "nn.Linear | Nf4Linear",
        *,
        rank: int,
        alpha: float = 16,
        dropout: float = 0.0,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        r, how = whole("rank", rank), {"dtype": dtype or torch.get_default_dtype()}
        self.base, self.scale = base, positive("alpha", alpha) / r
        inputs, outputs = base.in_features, base.out_features
        self.down = nn.Parameter(torch.randn(r, inputs, **how) * inputs**-0.5)  # type: ignore[call-overload]
        self.up = nn.Parameter(torch.zeros(outputs, r, **how))  # type: ignore[call-overload]
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:  # B S inputs -> B S outputs
        seen = x.to(self.down.dtype)
        if self.dropout:  # as on a GPU, whose mask has a byte a number
            seen = torch.native_dropout(seen, self.dropout, self.training)[0]
        change = F.linear(F.linear(seen, self.down), self.up)
        return self.base(x) + (self.scale * change).to(x.dtype)


class Dora(Adapted):
    """y = g / |W + s B A| * x (W + s B A)^T: a trained magnitude g for each output, in units of its
    row's norm, which counts as constant (Liu et al. 2024, section 4.3).
    """

    def __init__(self, base: "nn.Linear | Nf4Linear", **how: Any):
        super().__init__(base, **how)
        self.magnitude = nn.Parameter(self.norms())

    @torch.no_grad()
    def norms(self) -> Tensor:
        """Of the rows of the changed weight, which is put together for it in every forward pass."""
        change = self.scale * self.up @ self.down
        return (self.base.weight.to(change.dtype) + change).norm(dim=1)

    def forward(self, x: Tensor) -> Tensor:  # B S inputs -> B S outputs
        return super().forward(x) * (self.magnitude / self.norms()).to(x.dtype)


class _FromBits(torch.autograd.Function):
    """x W^T with a W that is unpacked for the matmul and again for the gradient: nothing of x or
    W is kept.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: "Nf4Linear") -> Tensor:
        ctx.layer = layer
        return F.linear(x, layer.weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (arrived,) = gradients
        return arrived @ ctx.layer.weight.to(arrived.dtype), None


class Nf4Linear(nn.Module):
    """A frozen linear layer in nf4: two numbers a byte, a scale for 64 of them, which has 8 bits
    below a scale for 256 scales (Dettmers et al. 2023, arXiv:2305.14314, section 3).

    Chapter: after (eq-nf4)
    """

    in_features: int
    out_features: int
    packed: Tensor
    numbers: Tensor
    scales: Tensor
    second: Tensor
    mean: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        if linear.bias is not None or linear.weight.numel() % BLOCK:
            raise InputError(
                f"weight of {linear.weight.numel()} numbers, bias = {linear.bias is not None}: "
                f"expected no bias and a multiple of {BLOCK}"
            )
        self.in_features, self.out_features = linear.in_features, linear.out_features
        blocks = linear.weight.detach().reshape(-1, BLOCK)
        most = blocks.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny)
        self._keep_scales(most)
        numbers, between = numbers_of("nf4")
        found = torch.bucketize((blocks / self._scales()[:, None]).double(), between)
        pairs = found.to(torch.uint8).view(-1, 2)
        self.register_buffer("packed", pairs[:, 0] * 16 + pairs[:, 1])
        self.register_buffer("numbers", numbers.float(), persistent=False)

    def _keep_scales(self, most: Tensor) -> None:
        """Scales less their mean, in 8 bits."""
        mean = most.mean()
        parts = F.pad(most - mean, (0, -len(most) % SECOND)).view(-1, SECOND)
        second = (parts.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        small = (parts / second[:, None]).round().to(torch.int8).flatten()
        self.register_buffer("scales", small[: len(most)].clone())
        self.register_buffer("second", second)
        self.register_buffer("mean", mean)

    def _scales(self) -> Tensor:
        wide = self.second.repeat_interleave(SECOND)[: len(self.scales)]
        return self.scales * wide + self.mean

    @property
    def weight(self) -> Tensor:
        """Unpacked."""
        found = torch.stack((self.packed >> 4, self.packed & 15), -1).flatten().int()
        blocks = self.numbers[found].view(-1, BLOCK) * self._scales()[:, None]
        return blocks.view(self.out_features, self.in_features)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _FromBits.apply(x, self)  # type: ignore[no-untyped-call]
        return out


def adapt(
    model: nn.Module,
    *,
    rank: int,
    targets: Collection[str] = ("query", "value"),
    quantised: bool = False,
    magnitude: bool = False,
    **how: Any,
) -> nn.Module:
    """A Llama whose weights are frozen, with an adapter beside each matrix named in `targets`, and
    with `magnitude` DoRA's; `quantised` puts all matrices of its layers into 4 bits, as QLoRA does:
    embedding, norms and head stay.

    Chapter: after (eq-adapter)
    """
    for name in targets:
        one_of("targets", name, PLACES)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:  # type: ignore[union-attr]
        for name, place in PLACES.items():
            part, attribute = place.split(".")
            room = getattr(block, part)
            linear = getattr(room, attribute)
            base = Nf4Linear(linear) if quantised else linear
            kind = Dora if magnitude else Adapted
            own = kind(base, rank=rank, **how) if name in targets else base
            setattr(room, attribute, own)
    return model
