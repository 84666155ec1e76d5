"""Data parallel: every rank has the whole model, and averages its gradients.

N   ranks, each with its part of the batch
K   bytes of gradients

Naive   an all-reduce for every parameter, when backward is over   2 K (N-1)/N sent
DDP     an all-reduce for every bucket, while backward goes on     2 K (N-1)/N sent

Backward fills gradients from the last layer to the first, so buckets are made in that
order: the last layers' gradients travel while the first layers' are computed (Li et al.
2020).  Every parameter takes part in the loss.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.ddp
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.plain import ring

Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


class Naive:
    """Call backward as often as you like, then `step`."""

    def __init__(
        self,
        model: nn.Module,
        make: Make,
        group: ProcessGroup | None = None,
        all_reduce: Callable[[Tensor, ProcessGroup | None], None] = ring.all_reduce,
    ):
        self.group, self.ranks = group, dist.get_world_size(group)
        self.parameters = list(model.parameters())
        self.optimizer, self.all_reduce = make(self.parameters), all_reduce
        for p in self.parameters:  # everybody starts from the first rank's weights
            dist.broadcast(p.data, group=group, group_src=0)

    def average(self) -> None:
        for p in self.parameters:
            self.all_reduce(p.grad, self.group)  # sums over all ranks, in place
            p.grad /= self.ranks

    def step(self) -> None:
        self.average()
        self.optimizer.step()
        self.optimizer.zero_grad()


class DDP(Naive):
    """Call backward `micro_batches` times, then `step`."""

    def __init__(
        self,
        model: nn.Module,
        make: Make,
        group: ProcessGroup | None = None,
        bucket_bytes: float = 25 * 2**20,
        micro_batches: int = 1,
    ):
        super().__init__(model, make, group)
        self.micro_batches = micro_batches
        self.buckets: list[list[nn.Parameter]] = [[]]
        for p in reversed(self.parameters):
            if sum(q.nbytes for q in self.buckets[-1]) >= bucket_bytes:
                self.buckets.append([])
            self.buckets[-1].append(p)
        self.begin()
        for i, bucket in enumerate(self.buckets):
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda _, i=i: self.arrived(i))

    def begin(self) -> None:
        self.missing = [self.micro_batches * len(bucket) for bucket in self.buckets]
        self.in_flight: list[tuple[list, Tensor, dist.Work]] = []

    def arrived(self, i: int) -> None:  # in backward, for each gradient
        self.missing[i] -= 1
        if self.missing[i] == 0:
            flat = torch.cat([p.grad.flatten() for p in self.buckets[i]])
            work = dist.all_reduce(flat, group=self.group, async_op=True)
            self.in_flight.append((self.buckets[i], flat, work))  # and backward goes on

    def average(self) -> None:
        for bucket, flat, work in self.in_flight:
            work.wait()
            parts = (flat / self.ranks).split([p.numel() for p in bucket])
            for p, part in zip(bucket, parts, strict=True):
                p.grad = part.view_as(p)
        self.begin()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.train("naive", Naive)
    script.train("DDP", DDP, bucket_bytes=2**16)
