"""Data parallel on unequal ranks: sequences by their speed, states by their memory.

N    ranks; rank i takes b_i of B sequences, and keeps the states of k_i of K bytes
v_i  sequences that rank i computes in a second

A step takes max b_i / v_i, the least where b_i is as near as can be to B v_i / sum v.
The mean over all sequences weighs a rank's mean with b_i / B. Chunks of the ring have
the sizes k_i: the gradients' sums are scattered, the weights gathered, as by ZeRO 1.
A rank sends 2 K (N-1)/N on average: all but its own chunk, then all but its right
neighbor's.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.unequal
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.plain import ring
from mathlib.parallel.plain.ddp import Make


class Unequal:
    """`loss` takes of the whole batch this rank's part; then backward and `step`."""

    def __init__(
        self,
        model: Any,
        make: Make,
        sequences: Sequence[int],  # b_i
        states: Sequence[int],  # numbers that rank i keeps the states of
        group: ProcessGroup | None = None,
    ):
        self.model, self.group = model, group
        self.rank, self.N = ring.place(group)
        self.parts = list(sequences)
        self.weight = self.N * sequences[self.rank] / sum(sequences)
        self.parameters = list(model.parameters())
        for p in self.parameters:  # everybody starts from the first rank's weights
            dist.broadcast(p.data, group=group, group_src=0)
        self.cuts = list(accumulate(states))[:-1]
        chunk = self.row("data").tensor_split(self.cuts)[self.rank]
        self.own = nn.Parameter(chunk.clone())
        self.optimizer = make([self.own])

    def row(self, name: str) -> Tensor:
        return torch.cat([getattr(p, name).flatten() for p in self.parameters])

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean over the ranks is the mean over the batch."""
        if self.weight == 0:  # a rank that takes no sequence
            return 0 * sum(p.sum() for p in self.parameters)
        mine = (whole.split(self.parts)[self.rank] for whole in (tokens, targets))
        return self.weight * self.model.loss(*mine)

    def step(self) -> None:
        sums = ring.reduce_scatter(self.row("grad"), self.group, self.cuts)
        self.own.grad = sums / self.N
        self.optimizer.step()
        self.model.zero_grad()
        row = self.row("data")
        row.tensor_split(self.cuts)[self.rank].copy_(self.own.data)
        ring.all_gather(row, self.group, self.cuts)
        sizes = [p.numel() for p in self.parameters]
        for p, part in zip(self.parameters, row.split(sizes), strict=True):
            p.data.copy_(part.view_as(p))


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    shares = {"sequences": [6, 3, 2, 1], "states": [10_000, 20_000, 30_000, 45_792]}
    script.sequences("unequal", Unequal, **shares)
