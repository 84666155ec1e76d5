"""MiCS: a model is sharded over S of N ranks, and the N/S groups that hold it are replicas.

N data-parallel ranks    S ranks of a sharding group    R replicas, N/S    K bytes of weights
Weights are gathered and gradients reduce-scattered in the sharding group, as ZeRO 3 does it: 3 K
(S-1)/S sent by a rank in a micro-batch, to neighbours. Once a step the shards of the gradient are
all-reduced over the replicas: 2 K/S (R-1)/R (Zhang et al. 2022, arXiv:2205.00119). S = 1 is DDP,
S = N is ZeRO 3.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, non_negative
from mathlib.parallel.ddp import broadcast
from mathlib.parallel.zero.flat_shards import FlatShard, Gather, Scattering, all_gather
from mathlib.parallel.zero.hierarchical_gather import (
    Scatter,
    by_nodes,
    group_along,
    scatter_by_nodes,
)
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.parallel.zero.stage1 import in_backward
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import mesh


class Mics(Zero3):
    """As Zero3, sharded over `shard` neighbours among the ranks of the group instead of all.

        model = gpt.GPT(gpt.small())
        mics = Mics(model, torch.optim.AdamW, model.blocks, shard=2, clip=1.0)
        for part in micro_batches:
            (model.loss(*part) / len(micro_batches)).backward()
        mics.step()

    whole_below      tensors with fewer elements stay whole on every rank, as in DDP
    bucket_elements  gradients wait for one another until they are so many, then leave together
    most_live        a gather ahead of its time waits while more weights would be whole than that
    ranks_per_node   a sharding group larger than that scatters its gradients inside nodes first,
                     and gathers its weights between nodes first (the
                     gather alone as one ring if `hierarchical` is False)

    The rest is as in Zero3: groups, clip, master, trace; prefetch, and fill for a model on the
    meta device.
    """

    def __init__(
        self,
        module: nn.Module,
        make: MakeOptimizer,
        layers: Iterable[nn.Module],
        group: ProcessGroup | None = None,
        *,
        shard: int,
        whole_below: float = 0,
        bucket_elements: float = 0,
        most_live: float = math.inf,
        ranks_per_node: int | None = None,
        hierarchical: bool = True,
        **options: Any,
    ):
        self.whole_group = group
        self.mesh = mesh_of(group, shard)
        self.sharding, self.replicas = (
            group_along(self.mesh, axis, group) for axis in ("shard", "replica")
        )
        self.alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        self.whole_below = math.inf if shard == 1 else non_negative("whole_below", whole_below)
        self.bucket_elements, self.most_live = bucket_elements, most_live
        self.gathering: Gather = all_gather
        self.scattering: Scatter = Scattering
        if ranks_per_node:
            self.scattering = scatter_by_nodes(self.sharding, ranks_per_node)
            self.gathering = by_nodes(self.sharding, ranks_per_node) if hierarchical else all_gather
        self.bucket: list[tuple[FlatShard, Tensor]] = []  # packed gradients that have not left
        super().__init__(module, make, layers, self.sharding, **options)
        self.ranks = self.mesh.world  # the mean is over all ranks
        self._check_limit()

    @property
    def everyone(self) -> ProcessGroup | None:
        return self.whole_group

    def _lay_out(self) -> list[tuple[int, nn.Parameter]]:
        found = super()._lay_out()
        for row in self.every_row() if self.fill else ():  # filled by each rank for itself
            broadcast([row.shard], self.everyone if row.kept else self.replicas)
            if row.kept:
                row.piece.copy_(row.shard.data)
        return found

    def _rows(self, names: dict[nn.Parameter, str]) -> list[dict[nn.Parameter, str]]:
        """Small tensors lie in rows of their own."""
        small = {p: name for p, name in names.items() if p.numel() < self.whole_below}
        large = {p: name for p, name in names.items() if p not in small}
        return super()._rows(large) + super()._rows(small)

    def _row(self, names: dict[nn.Parameter, str]) -> FlatShard:
        """A row over the sharding group; over this rank alone if its tensors are small."""
        if all(p.numel() < self.whole_below for p in names):
            return FlatShard(names, self.alone, master=self.master, fill=self.fill)
        row = super()._row(names)
        row.how = self.gathering
        return row

    def _name_rows(self) -> None:
        super()._name_rows()
        for row in self.every_row():
            if row.kept and self.mesh.sizes["shard"] > 1:
                row.name += ", small tensors"

    def _send(self, row: FlatShard) -> None:
        """A row's gradients have all come: they wait in the bucket for company."""
        row.release()
        waiting = sum(len(packed) for _, packed in self.bucket) + len(row.row)
        leaves = not row.kept and waiting >= self.bucket_elements
        if leaves:  # one row less in memory than if it were packed before there is room on the way
            self._settle(self.most_sent - 1)
        gradients = row.packed_gradients(self.ranks)
        if row.kept:  # it meets the other ranks at the step
            row.add(gradients.to(row.shard.dtype))
            return
        if self.bucket and self.bucket[0][1].dtype != gradients.dtype:
            self._empty_bucket()
        self.bucket.append((row, gradients))
        if leaves:
            self._empty_bucket()

    def _empty_bucket(self) -> None:
        """Reduce-scatter the rows of the bucket as one."""
        if not self.bucket:
            return
        rows, packed = map(list, zip(*self.bucket, strict=True))
        self.bucket.clear()
        self._settle(self.most_sent - 1)
        lines = [gradients.view(self.mesh.sizes["shard"], -1) for gradients in packed]
        joined = torch.cat(lines, 1).view(-1) if len(rows) > 1 else packed[0]
        what = f"reduce-scatter of {', '.join(row.name for row in rows)}"
        scattering = self.scattering(joined, self.sharding, what=what, trace=self.trace)
        self.sent.append((rows, scattering))

    def _start(self) -> None:
        if not in_backward():  # a backward that broke off may have left something
            self.bucket.clear()
        super()._start()

    def _finish(self) -> None:
        self._empty_bucket()
        super()._finish()

    @torch.no_grad()
    def step(self) -> Tensor | None:
        """Add up over the replicas and update; only small tensors are published, as the
        next forward gathers all others.
        """
        self._check_unchanged()
        self._check_arrived()
        self._add_up()
        norm = self._update()
        self._release_all()
        for row in self.shards:
            if row.kept:
                row.publish().wait()
        return norm

    def _add_up(self) -> None:
        """Pieces of a gradient over the replicas, those of small tensors over all ranks."""
        for row in self.shards:
            group = self.everyone if row.kept else self.replicas
            if dist.get_world_size(group) > 1 and (gradient := row.shard.grad) is not None:
                what = f"all-reduce of {row.name}"
                with self.trace.span(what, "communication", gradient.nbytes):
                    dist.all_reduce(gradient, group=group)

    def live(self) -> int:
        """Weights that are whole now, or about to be, because they were gathered."""
        coming = (r for r in self.every_row() if not r.kept and (r.whole or r.arriving))
        return sum(sum(row.sizes) for row in coming)

    def _away(self, part: nn.Module) -> int:
        """Weights of a part that would have to be gathered."""
        rows = (row for row in self.rows[part] if not (row.whole or row.arriving))
        return sum(sum(row.sizes) for row in rows)

    def _check_limit(self) -> None:
        outside, *layers = (self._away(part) for part in self.rows)
        if self.most_live < (least := outside + max(layers, default=0)):
            raise InputError(
                f"most_live = {self.most_live}: expected {least} or more, what stands in no layer "
                "and the largest layer"
            )

    def _look_ahead(self, layers: Sequence[nn.Module]) -> None:
        """Begin to gather what comes next, as long as there is room for it."""
        for layer in layers:
            if self.live() + self._away(layer) > self.most_live:
                return
            super()._look_ahead([layer])

    def _gather(self, part: nn.Module) -> None:
        """What computes now goes first: if it has no room, what was gathered ahead was not next."""
        if self.live() + self._away(part) > self.most_live:
            for other in self.layers:
                if other is not part:
                    self._release(other)
        super()._gather(part)


def mesh_of(group: ProcessGroup | None, shard: int) -> mesh.Mesh:
    """Sharding groups of neighbours among the ranks of the group, and replicas across them."""
    ranks = dist.get_world_size(group)
    if shard not in (degrees := mesh.valid_shards(world=ranks)):
        raise InputError(
            f"shard = {shard}: expected a divisor of the {ranks} data-parallel ranks: "
            f"{', '.join(map(str, degrees))}"
        )
    return mesh.sagemaker(world=ranks, shard=shard)
