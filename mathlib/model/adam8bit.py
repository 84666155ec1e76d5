"""Adam with its two moments in 8 bits each, by blocks: a scale for 256 values, and a map of up to
256 numbers that lie closer the smaller they are.

g gradient · m, v first and second moment
Between steps only bytes and scales are kept; a step widens one parameter's moments, updates them
and writes them back (Dettmers et al. 2022).
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from mathlib.checks import one_of, positive, whole
from mathlib.memory import bits
from mathlib.meters.saved import tensor_bytes
from mathlib.model.mixed_adam import adam

MAPS: dict[str, Callable[[bool], tuple[float, ...]]] = {
    "dynamic": lambda signed: bits.dynamic_map(signed=signed),
    "linear": lambda signed: bits.linear_map(signed=signed),
}


@cache
def numbers(kind: str, signed: bool) -> tuple[Tensor, Tensor]:
    """The numbers of a map, and the places half way between neighbours."""
    values = torch.tensor(MAPS[one_of("kind", kind, MAPS)](signed))
    return values, (values[1:] + values[:-1]) / 2


class Blocks:
    """A tensor in 8 bits: each block's largest is its scale, each value the nearest of the map."""

    def __init__(self, values: Tensor, signed: bool, block: int = 256, kind: str = "dynamic"):
        self.shape, self.signed, self.kind = values.shape, signed, kind
        flat = values.flatten()
        short = -flat.numel() % whole("block", block)
        rows = nn.functional.pad(flat, (0, short)).view(-1, block)
        self.scales = rows.abs().amax(1, keepdim=True)
        _, between = numbers(kind, signed)
        parts = rows / self.scales.clamp(min=torch.finfo(torch.float32).tiny)
        self.bytes = torch.bucketize(parts, between.to(rows.device)).to(torch.uint8)
        self.bytes = self.bytes.flatten()[: flat.numel()].clone()
        self.block = block

    def values(self) -> Tensor:
        """What is left of the numbers."""
        flat, _ = numbers(self.kind, self.signed)
        flat = flat.to(self.bytes.device)[self.bytes.int()]
        each = self.scales.flatten().repeat_interleave(self.block)[: flat.numel()]
        return (flat * each).view(self.shape)

    def kept(self) -> list[Tensor]:
        return [self.bytes, self.scales]


class Adam8bit(torch.optim.Optimizer):
    """Adam whose moments are kept in 8 bits; parameters of fewer than `least` numbers keep theirs
    in 32, as the library of the paper does.

    Chapter: precision (eq-blockwise)
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        block: int = 256,
        kind: str = "dynamic",
        least: int = 4096,
    ):
        self.block, self.kind = whole("block", block), one_of("kind", kind, MAPS)
        self.least, self.steps = whole("least", least, least=0), 0
        super().__init__(parameters, {"lr": positive("lr", lr), "betas": betas})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group["lr"], group["betas"])

    def _update(self, p: Tensor, lr: float, betas: tuple[float, float]) -> None:
        g = p.grad
        assert g is not None
        m, v = self._wide(self.state[p], p)
        adam(p, g, m, v, self.steps, lr, betas)
        if p.numel() < self.least:
            self.state[p] = {"m": m, "v": v}
        else:
            self.state[p] = {
                name: Blocks(moment, signed, self.block, self.kind)
                for name, moment, signed in (("m", m, True), ("v", v, False))
            }

    def _wide(self, state: dict[str, Any], p: Tensor) -> list[Tensor]:
        """Both moments in 32 bits; zeros before the first step."""
        if not state:
            return [torch.zeros_like(p), torch.zeros_like(p)]
        return [s.values() if isinstance(s, Blocks) else s for s in (state["m"], state["v"])]

    def bytes(self) -> int:
        """What the moments take between steps."""
        kept = [s for state in self.state.values() for s in state.values()]
        return tensor_bytes([s.kept() if isinstance(s, Blocks) else s for s in kept])
