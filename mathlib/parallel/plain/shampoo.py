"""Shampoo multiplies a gradient from both sides: who keeps the two factors of a matrix?

N     ranks, each with its part of the batch
K     bytes of all parameters
m, n  rows and columns of a matrix, or of a block of it

The left factor L sums G G^T, the right one R sums G^T G; the update is L^-1/4 G R^-1/4
(Gupta et al. 2018).  Factors and their roots are 2 (m^2 + n^2) numbers.

            keeps factors and roots   a rank sends in a step
repeated    of all matrices           2 K (N-1)/N   gradients, as in DDP
by owners   of its own matrices       2 K (N-1)/N   gradients, and weights back

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.shampoo
"""

from collections.abc import Iterable
from itertools import product

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.plain import ddp, muon
from mathlib.parallel.plain.ddp import Make


def root(factor: Tensor) -> Tensor:
    """The inverse fourth root of a symmetric matrix."""
    values, vectors = torch.linalg.eigh(factor)
    return vectors * values.clamp(min=1e-12) ** -0.25 @ vectors.T


class Shampoo(torch.optim.Optimizer):
    """Factors of each block of a matrix; whose roots are taken every `often` steps."""

    def __init__(
        self,
        own: Iterable[Tensor],
        lr: float = 0.05,
        block: int = 1024,
        often: int = 1,
        start: float = 1e-3,
    ):
        given = {"lr": lr, "block": block, "often": often, "start": start}
        super().__init__(own, given)
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                size, state = group["block"], self.state[p]
                rows, columns = (range(0, length, size) for length in p.shape)
                for i, j in product(rows, columns):
                    place = slice(i, i + size), slice(j, j + size)
                    held = state.setdefault((i, j), {})
                    update = self.update(held, p.grad[place], group)
                    p[place].add_(update, alpha=-group["lr"])
        self.steps += 1

    def update(self, held: dict[str, Tensor], gradient: Tensor, group: dict) -> Tensor:
        for name, G in (("left", gradient), ("right", gradient.T)):
            if name not in held:
                held[name] = group["start"] * torch.eye(len(G), dtype=G.dtype)
            held[name] += G @ G.T
            if self.steps % group["often"] == 0:
                held[f"{name} root"] = root(held[name])
        return held["left root"] @ gradient @ held["right root"]


class Repeated:
    """Every rank keeps all factors, and computes all updates."""

    def __init__(
        self,
        model: nn.Module,
        make: Make,
        layers: Iterable[nn.Module],
        group: ProcessGroup | None = None,
    ):
        self.ddp = ddp.Naive(model, make, group)
        self.optimizer = muon.Both(self.ddp.parameters, layers, Shampoo, make)

    def step(self) -> None:
        self.ddp.average()
        self.optimizer.step()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.train("repeated", Repeated, layers=True)
    script.train("by owners", muon.Owners, layers=True, whole=Shampoo)
