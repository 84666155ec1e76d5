"""MiCS: ZeRO 3 inside small groups of neighbors, and an all-reduce between the groups.

N   ranks, each with its part of the batch
S   ranks of a sharding group: the model is whole in every group
R   replicas of the model, N/S
K   bytes of the flat parameters

weights     gathered in the sharding group, twice a micro-batch      2 K (S-1)/S sent
gradients   reduce-scattered in it, once a micro-batch               K (S-1)/S
shards      their gradients all-reduced over the replicas, at step   2 K/S (R-1)/R

Most bytes stay among neighbors, where links are fast (Zhang et al. 2022).  S = N is
ZeRO 3, S = 1 is data parallelism.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.mics
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.plain import ring
from mathlib.parallel.plain.zero import Zero


def groups(shard: int) -> tuple[ProcessGroup, ProcessGroup]:
    """This rank's sharding group (by 2 of 6: 01 23 45) and its replicas (024 135)."""
    N, S = dist.get_world_size(), shard
    neighbors = [list(range(first, first + S)) for first in range(0, N, S)]
    across = [list(range(first, N, S)) for first in range(S)]
    sharding, _ = dist.new_subgroups_by_enumeration(neighbors)
    replicas, _ = dist.new_subgroups_by_enumeration(across)
    return sharding, replicas


class Mics(Zero):
    """Call backward as often as you like, then `step`."""

    def __init__(
        self,
        model: nn.Module,
        make: Callable[[Iterable[Tensor]], torch.optim.Optimizer],
        layers: Iterable[nn.Module],
        sharding: ProcessGroup,
        replicas: ProcessGroup,
    ):
        super().__init__(model, make, layers, stage=3, group=sharding)
        self.replicas = replicas
        for flat in self.flats:  # all replicas start from the weights of the first
            dist.broadcast(flat.shard.data, group=replicas, group_src=0)

    def step(self) -> None:
        for flat in self.flats:  # its sharding group's mean becomes that of all ranks
            ring.all_reduce(flat.shard.grad, self.replicas)
            flat.shard.grad /= dist.get_world_size(self.replicas)
        super().step()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    def build(*given):
        return Mics(*given, *groups(shard=2))

    script.train("MiCS", build, layers=True)
