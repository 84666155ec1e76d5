"""The process groups of a layout: whom this rank meets along each axis.

tensor          tensor ranks, neighbours: parts of the same matrices
context         parts of the same sequences
data            context and data ranks together: the same weights, and gradients to be added up
expert          other experts of the same layers      } of the experts' own grid, which has the
expert tensor   parts of the same experts             } same ranks and the same stages
expert data     the same experts
Stages of a pipeline send each other messages, and need no group; what a tied embedding or a
schedule in two directions has on several stages gets one of its own, "copies".
"""

from collections.abc import Sequence

import torch.distributed as dist
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.parallel.collectives import process_group_of
from mathlib.traffic import mesh

AXES = {  # an axis' coordinates in the grid of what is dense, or in that of the experts
    "tensor": (False, ("tp",)),
    "context": (False, ("cp",)),
    "data": (False, ("cp", "dp")),
    "expert": (True, ("ep",)),
    "expert tensor": (True, ("tp",)),
    "expert data": (True, ("dp",)),
}
PIPELINE, COPIES, ALL = "pipeline", "copies", "all ranks"


class Grid:
    """To be made on all ranks at once; runs of one layout after the other can share it."""

    def __init__(self, layout: Layout):
        self.world = dist.get_world_size()
        if layout.world != self.world:
            raise InputError(
                f"layout of data {layout.data} * context {layout.context} * tensor "
                f"{layout.tensor} * pipeline {layout.pipeline} = {layout.world} ranks: expected "
                f"{self.world}"
            )
        self.meshes = {
            experts: mesh.of_layout(layout, experts=experts) for experts in (False, True)
        }
        self.at = self.meshes[False].coordinates(dist.get_rank())
        self.alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        self.groups = {axis: self._along(axis) for axis in AXES}
        self.made: dict[tuple[int, ...], ProcessGroup | None] = {}

    def ranks_along(self, axis: str) -> list[list[int]]:
        """The ranks of every group of an axis."""
        experts, axes = AXES[axis]
        return self.meshes[experts].groups(*axes)

    def _along(self, axis: str) -> ProcessGroup:
        ranks = self.ranks_along(axis)
        return process_group_of(ranks) if len(ranks[0]) > 1 else self.alone

    def size(self, axis: str) -> int:
        """Ranks of this rank's group."""
        return dist.get_world_size(self.groups[axis])

    def place(self, axis: str) -> int:
        """This rank's number in it."""
        return dist.get_rank(self.groups[axis])

    @property
    def pipelines(self) -> list[list[int]]:
        """The ranks of the stages of every pipeline."""
        return self.meshes[False].groups("pp")

    def among(self, ranks: Sequence[int]) -> ProcessGroup | None:
        """The group of these ranks; every rank must ask, and only they get it."""
        for axis in ("data", "expert data"):
            if list(ranks) in self.ranks_along(axis):
                return self.groups[axis] if dist.get_rank() in ranks else None
        if tuple(ranks) not in self.made:
            group = dist.new_group(list(ranks))
            self.made[tuple(ranks)] = group if dist.get_rank() in ranks else None
        return self.made[tuple(ranks)]

    def axis_of(self, name: str) -> str:
        """The axis of a process group's name, as `wire.Counted.by_group` has them."""
        for axis, group in self.groups.items():
            if group is not self.alone and group.group_name == name:
                return axis
        others = {group.group_name for group in self.made.values() if group is not None}
        return COPIES if name in others else PIPELINE
