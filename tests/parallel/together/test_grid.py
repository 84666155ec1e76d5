"""Whom a rank meets along each axis is what the mesh says, and a group is known by its axis."""

import torch.distributed as dist

from mathlib import launch
from mathlib.layout import Layout
from mathlib.parallel.together.grid import AXES, Grid
from mathlib.traffic import mesh

LAYOUT = Layout(data=2, pipeline=2, expert=2)


def groups():
    """The ranks of this rank's group along each axis, and what each group's name stands for."""
    grid = Grid(LAYOUT)
    members = {axis: dist.get_process_group_ranks(group) for axis, group in grid.groups.items()}
    several = {axis: group for axis, group in grid.groups.items() if len(members[axis]) > 1}
    named = {axis: grid.axis_of(group.group_name) for axis, group in several.items()}
    pair = grid.among([0, 3])
    same = grid.among(grid.ranks_along("data")[0]), grid.groups["data"]
    world = grid.axis_of(dist.group.WORLD.group_name)
    return (
        members,
        named,
        grid.pipelines,
        (pair is not None, same[0] in (None, same[1]), world),
        pair is None or grid.axis_of(pair.group_name),
    )


def test_groups_are_those_of_the_mesh_and_known_by_their_names():
    dense, experts = mesh.of_layout(LAYOUT), mesh.of_layout(LAYOUT, experts=True)
    for rank, (members, named, pipelines, found, pair) in enumerate(launch.run(groups, 4)):
        for axis, (of_experts, axes) in AXES.items():
            assert members[axis] == (experts if of_experts else dense).group_of(rank, *axes)
        assert members["expert"] == members["data"] == [rank // 2 * 2, rank // 2 * 2 + 1]
        assert named == {axis: axis for axis in ("data", "expert")}
        assert pipelines == [[0, 2], [1, 3]]
        assert found == (rank in (0, 3), True, "pipeline")
        assert pair == (rank not in (0, 3) or "copies")
