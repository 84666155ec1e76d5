"""Local steps: data parallel ranks train alone, and meet every H steps.

N   ranks
K   bytes of weights
F   fragments of the weights, which meet one after the other

                      sent in a step on average      at a time
data parallel         2 K (N-1)/N                    2 K (N-1)/N
every H steps         2 K (N-1)/N / H                2 K (N-1)/N
in F fragments        2 K (N-1)/N / H                2 K (N-1)/N / F

Local SGD takes the mean of the weights (Stich 2019). DiLoCo takes the way from the
last meeting to that mean for a gradient, and steps along it with Nesterov momentum
(Douillard et al. 2023). Streaming DiLoCo sends fragments, goes on while they travel,
and lets a rank keep a share of its own weights when they arrive (Douillard et al.
2025).

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.local_sgd
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.plain.ddp import Make

Nesterov = Callable[[list[Tensor]], torch.optim.Optimizer]


def nesterov(weights: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=0.7, momentum=0.9, nesterov=True)


def mean(weights: list[Tensor]) -> torch.optim.Optimizer:
    """A whole step to the mean: local SGD."""
    return torch.optim.SGD(weights, lr=1.0)


class Fragment:
    """Weights that meet together: where they last met, and the optimizer of that."""

    def __init__(self, parameters: list[nn.Parameter], outer: Nesterov):
        self.parameters = parameters
        self.met = torch.cat([p.data.flatten() for p in parameters])
        self.outer = outer([self.met])

    def here(self) -> Tensor:
        return torch.cat([p.data.flatten() for p in self.parameters])

    def leave(self, group: ProcessGroup | None) -> None:
        self.way = (self.met - self.here()) / dist.get_world_size(group)
        self.work: Any = dist.all_reduce(self.way, group=group, async_op=True)

    def arrive(self, own: float) -> None:
        """Each rank goes to where all meet, but keeps a share of where it is."""
        self.work.wait()
        self.met.grad = self.way
        self.outer.step()
        weights = self.met.lerp(self.here(), own)
        sizes = [p.numel() for p in self.parameters]
        for p, part in zip(self.parameters, weights.split(sizes), strict=True):
            p.data.copy_(part.view_as(p))


class LocalSteps:
    """Call backward, then `step`; fragment f meets when H f/F steps of H are over."""

    def __init__(
        self,
        model: nn.Module,
        make: Make,
        outer: Nesterov = mean,
        steps: int = 2,  # H
        fragments: int = 1,  # F
        late: int = 0,  # steps that a fragment is in flight
        own: float = 0.0,
        group: ProcessGroup | None = None,
    ):
        self.group, self.H, self.late, self.own = group, steps, late, own
        parameters = list(model.parameters())
        for p in parameters:  # everybody starts from the first rank's weights
            dist.broadcast(p.data, group=group, group_src=0)
        self.optimizer, self.number = make(parameters), 0
        cut = [i * len(parameters) // fragments for i in range(fragments + 1)]
        pairs = zip(cut, cut[1:], strict=False)
        self.fragments = [Fragment(parameters[a:b], outer) for a, b in pairs]

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.number += 1
        for f, fragment in enumerate(self.fragments, 1):
            after = self.number - f * self.H // len(self.fragments)  # its first meeting
            if after >= 0 and after % self.H == 0:
                fragment.leave(self.group)
            if after >= self.late and (after - self.late) % self.H == 0:
                fragment.arrive(self.own)


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.train("local SGD", LocalSteps)
    script.train("DiLoCo", LocalSteps, outer=nesterov)
    script.train("in two fragments", LocalSteps, outer=nesterov, fragments=2, late=1)
