"""Muon needs whole matrices: each has an owner, who keeps its states and updates it.

N     ranks, each with its part of the batch
K     bytes of all parameters, K_r of those that rank r owns
m, n  rows and columns of a matrix, m the smaller

in a step                          sent                     multiplied
rank r, as an owner                2 K - K_r - K_{r+1}      its matrices alone
mean over the ranks                2 K (N-1)/N, as in DDP   1/N of all

An update is the momentum with all its singular values near 1: five Newton-Schulz steps
bring them there, 4 m^2 n + 2 m^3 FLOP each (Jordan et al. 2024).  They need every
number of a matrix, so a flat shard of ZeRO that ends inside one will not do.  What is
no matrix of a layer has an owner, too, and another optimizer.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.muon
"""

from collections.abc import Iterable
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mathlib.parallel.plain import ring
from mathlib.parallel.plain.ddp import Make
from mathlib.traffic.owners import deal

COEFFICIENTS = 3.4445, -4.7750, 2.0315  # the steepest at 0 that stay near 1


def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """The same singular vectors, all singular values about 1."""
    wide = matrix.bfloat16()
    if len(wide) > wide.shape[1]:
        return orthogonal(wide.T, steps).T
    wide = wide / wide.norm().clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = wide @ wide.T
        twice = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        wide = torch.addmm(wide, twice, wide, beta=a)
    return wide


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal; one number of state for each of a matrix."""

    def __init__(self, own: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95):
        super().__init__(own, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                held = self.state[p].setdefault("momentum", torch.zeros_like(p))
                held.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(held, group["momentum"]))
                longer = max(1, len(p) / p.shape[1]) ** 0.5
                p.add_(update, alpha=-group["lr"] * longer)


class Both:
    """An optimizer for the matrices inside layers, another for what is left."""

    def __init__(self, own: list, layers: Iterable[nn.Module], whole: Make, make: Make):
        inside = {p for layer in layers for p in layer.parameters()}
        matrices = [p for p in own if p in inside and p.dim() == 2]
        rest = [p for p in own if p not in inside or p.dim() != 2]
        pairs = (whole, matrices), (make, rest)
        self.parts = [of(some) for of, some in pairs if some]

    def step(self) -> None:
        for optimizer in self.parts:
            optimizer.step()
            optimizer.zero_grad()


class Owners:
    """Call backward as often as you like, then `step`."""

    def __init__(
        self,
        model: nn.Module,
        make: Make,
        layers: Iterable[nn.Module],
        group: ProcessGroup | None = None,
        whole: Make = Muon,
    ):
        self.group, (rank, self.ranks) = group, ring.place(group)
        listed = list(model.parameters())
        owned = deal([p.nbytes for p in listed], self.ranks)
        self.parameters = [listed[i] for of in owned for i in of]  # owner after owner
        sizes = [sum(listed[i].numel() for i in of) for of in owned]
        self.cuts = list(accumulate(sizes))[:-1]
        self.flat = parameters_to_vector(self.parameters).detach()
        dist.broadcast(self.flat, group=group, group_src=0)
        vector_to_parameters(self.flat, self.parameters)  # they are views of it now
        self.mine = [listed[i] for i in owned[rank]]
        self.optimizer = Both(self.mine, layers, whole, make)

    def step(self) -> None:
        flat = parameters_to_vector([p.grad for p in self.parameters]) / self.ranks
        mean = ring.reduce_scatter(flat, self.group, self.cuts)
        for p in self.parameters:
            p.grad = None
        parts = mean.split([p.numel() for p in self.mine])
        for p, part in zip(self.mine, parts, strict=True):
            p.grad = part.view_as(p)
        self.optimizer.step()
        ring.all_gather(self.flat, self.group, self.cuts)


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.train("Muon", Owners, layers=True)
