"""A hierarchical all-gather and reduce-scatter, for a group that spans nodes.

S ranks of the sharding group, node by node · g ranks inside a node · K bytes of the whole row
The gather (Zhang et al. 2022, section 3.3):
1. Between nodes: the ranks with the same place in their nodes gather each other's shards.
2. On the spot: what came is laid where it belongs in the row.
3. Inside the node: each stretch of g pieces is gathered among the node's g ranks.
The scatter goes the same way back: a node's g rows become one sum inside it, and only that leaves.
A node sends (S-g)/S K to the others; one ring through all ranks would send (S-1)/S K out of it.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, whole
from mathlib.meters.trace import Trace
from mathlib.parallel.zero.flat_shards import SILENT, Gather, Scattering, Transfer, all_gather
from mathlib.traffic.mesh import Mesh

Scatter = Callable[..., Any]  # Scattering, or what is called and waited for as it is


class StagedGather:
    """A gather of which the first stage is in flight; `wait` does the other two."""

    def __init__(
        self,
        row: Tensor,
        piece: Tensor,
        inside: ProcessGroup,
        across: ProcessGroup,
        *,
        what: str = "all-gather",
        trace: Trace = SILENT,
    ):
        self.inside, self.place, self.what, self.trace = inside, dist.get_rank(inside), what, trace
        nodes, ranks = dist.get_world_size(across), dist.get_world_size(inside)
        self.row = row.view(nodes, ranks, -1)  # the shards, node by node
        self.came = torch.empty_like(self.row[:, self.place])  # from this place in every node
        between = f"{what}, between nodes"
        self.between = all_gather(self.came.view(-1), piece, across, what=between, trace=trace)

    def wait(self) -> None:
        self.between.wait()
        own = self.row[:, self.place]
        own.copy_(self.came)
        for transfer in [self._inside(*pair) for pair in zip(self.row, own, strict=True)]:
            transfer.wait()

    def _inside(self, stretch: Tensor, piece: Tensor) -> Transfer:
        """Begin to gather the shards of one node's ranks."""
        what = f"{self.what}, inside the node"
        return all_gather(stretch.view(-1), piece, self.inside, what=what, trace=self.trace)


class StagedScatter:
    """A reduce-scatter of which the stage inside the node is in flight; `wait` does the other.

    The sums of a node travel on in the row's own numbers: in 16 bits they are rounded twice.
    """

    def __init__(
        self,
        row: Tensor,
        inside: ProcessGroup,
        across: ProcessGroup,
        *,
        what: str = "reduce-scatter",
        trace: Trace = SILENT,
    ):
        self.across, self.what, self.trace, self.dtype = across, what, trace, row.dtype
        nodes, ranks = dist.get_world_size(across), dist.get_world_size(inside)
        by_place = row.view(nodes, ranks, -1).transpose(0, 1).reshape(-1)
        self.inside = Scattering(by_place, inside, what=f"{what}, inside the node", trace=trace)

    @property
    def work(self) -> Transfer:
        """What is in flight."""
        return self.inside.work

    def wait(self, dtype: torch.dtype) -> Tensor:
        """The piece, added up in numbers of this type."""
        mine = self.inside.wait(dtype).to(self.dtype)  # what has my place, for every node
        between = f"{self.what}, between nodes"
        return Scattering(mine, self.across, what=between, trace=self.trace).wait(dtype)


def group_along(grid: Mesh, axis: str, group: ProcessGroup | None = None) -> ProcessGroup:
    """This rank's process group along an axis of a mesh of the group's ranks; only its members take
    part in making it.
    """
    members = dist.get_process_group_ranks(group)
    mine = [members[i] for i in grid.group_of(dist.get_rank(group), axis)]
    return dist.new_group(mine, use_local_synchronization=True)


def _stages(group: ProcessGroup, ranks_per_node: int) -> tuple[ProcessGroup, ProcessGroup] | None:
    """This rank's groups inside its node and across nodes, if the group spans nodes."""
    S, g = dist.get_world_size(group), whole("ranks_per_node", ranks_per_node)
    if g == 1 or g >= S:
        return None
    if S % g:
        raise InputError(
            f"ranks_per_node = {g}: expected a divisor of the sharding group's {S} ranks, or as "
            "many or more"
        )
    grid = Mesh({"inside": g, "across": S // g})
    return group_along(grid, "inside", group), group_along(grid, "across", group)


def by_nodes(group: ProcessGroup, ranks_per_node: int) -> Gather:
    """The way to gather in this group: hierarchical if it spans nodes."""
    if not (stages := _stages(group, ranks_per_node)):
        return all_gather

    def gather(row: Tensor, piece: Tensor, _: ProcessGroup | None, **told: Any) -> StagedGather:
        return StagedGather(row, piece, *stages, **told)

    return gather


def scatter_by_nodes(group: ProcessGroup, ranks_per_node: int) -> Scatter:
    """The way to scatter in this group: hierarchical if it spans nodes."""
    if not (stages := _stages(group, ranks_per_node)):
        return Scattering

    def scatter(row: Tensor, _: ProcessGroup | None, **told: Any) -> StagedScatter:
        return StagedScatter(row, *stages, **told)

    return scatter
