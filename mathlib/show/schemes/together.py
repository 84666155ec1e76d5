"""Schemes of several kinds of parallelism together: every GPU, coloured by the group it is in; and
a decision, level by level.

In `groups`, those that are copies of each other have one colour; every second copy is pale.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mathlib.checks import instance, one_of, quotient
from mathlib.layout import Layout
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import piece_look
from mathlib.show.tables import Shown
from mathlib.traffic import mesh

AXES = {"tensor": "TPG", "shard": "SDPG"}  # as SageMaker's page calls the groups of each
GROUPS = (
    "A colour is a set of groups that hold the same, full for one copy of the model and pale for "
    "the next."
)


def groups(
    world: int = 32,
    tensor: int = 4,
    shard: int = 4,
    node: int = 8,
    *,
    of: str = "tensor",
    caption: str = GROUPS,
    name: str = "",
) -> Shown:
    """GPUs in their nodes, by the tensor group or the sharding group that each is in, as
    SageMaker's page on sharded data parallelism draws them in its figures 1 and 2.
    """
    quotient("world", world, {"node": node})
    grid, axis = mesh.sagemaker(world=world, tensor=tensor, shard=shard), one_of("of", of, AXES)
    return figure(partial(_groups, grid=grid, node=node, axis=axis), caption=caption, name=name)


def copies(grid: mesh.Mesh, axis: str) -> list[list[int]]:
    """Groups of an axis that hold the same, by their numbers: those that differ in the replica."""
    return grid.without(axis).groups("replica")


def _groups(width: float, grid: mesh.Mesh, node: int, axis: str) -> str:
    kind = "Tensor" if axis == "tensor" else "Sharding"
    page = Canvas(width, f"{kind} groups of {grid.world} GPUs")
    every, sets = grid.groups(axis), copies(grid, axis)
    looks: dict[int, dict[str, Any]] = {
        group: {"role": piece_look(number, len(sets)), "solid": copy % 2 == 0}
        for number, of in enumerate(sets)
        for copy, group in enumerate(of)
    }
    group_of = {rank: g for g, group in enumerate(every) for rank in group}
    wide = min(46.0, (width - 76) / node - 4)
    for first in range(0, grid.world, node):
        ranks = [
            _gpu(page, r, f"{AXES[axis]}{group_of[r]}", wide, looks[group_of[r]])
            for r in range(first, first + node)
        ]
        label = page.words(f"node {first // node}", small=True)
        page.row(label, page.beside(*ranks, gap=4), gap=10, above=6 if first else 14)
    keys = [_key(page, of, AXES[axis], looks) for of in sets]
    page.flow(*keys, gap=18, above=20)
    return page.done(_said(every, sets, axis))


def _key(page: Canvas, of: list[int], word: str, looks: dict[int, dict[str, Any]]) -> Shape:
    """Groups that hold the same: their looks and their names."""
    boxes = [page.box("", wide=18, high=14, tight=True, **looks[g]) for g in of]
    names = " and ".join(f"{word}{g}" for g in of)
    return page.beside(*boxes, page.words(names, small=True), gap=6)


def _gpu(page: Canvas, rank: int, group: str, wide: float, look: dict[str, Any]) -> Shape:
    text = str(rank) if page.wide(str(rank)) + 4 < wide else ""
    return page.box(text, wide=wide, high=26, tight=True, hint=f"GPU {rank}, {group}", **look)


def _said(every: list[list[int]], sets: list[list[int]], axis: str) -> str:
    word = AXES[axis]
    first = ", ".join(map(str, every[0]))
    pairs = "; ".join(" and ".join(f"{word}{g}" for g in of) for of in sets)
    return f"{len(every)} groups, of which {word}0 has GPUs {first}. The same is held by {pairs}"


# The ranks of a layout, stage by stage

AXIS = {"tensor": ("tp",), "context": ("cp",), "data": ("dp",), "pipeline": ("pp",)}
RANKS = (
    "A panel is a stage, a row a replica, a column a tensor rank. Ranks of one colour form a "
    "{axis} group; the first group is full, the others are pale."
)


def ranks(
    layout: Layout, axis: str = "tensor", *, node: int = 8, caption: str = "", name: str = ""
) -> Shown:
    """All ranks of a layout in Megatron-LM's order, coloured by their groups along an axis."""
    words = caption or RANKS.format(axis=one_of("axis", axis, AXIS))
    draw = partial(ranks_drawn, layout=layout, axis=axis, node=node)
    return figure(draw, caption=words, name=name)


def ranks_drawn(width: float, layout: Layout, axis: str, node: int) -> str:
    """A panel for each stage, with a row of tensor ranks for each context rank of a replica."""
    grid = mesh.of_layout(instance("layout", layout, Layout))
    every = grid.groups(*AXIS[axis])
    group_of = {rank: g for g, group in enumerate(every) for rank in group}
    page = Canvas(width, f"{grid.world} ranks by their {axis} groups")
    wide = max(7.0, min(34.0, (width - 60) / layout.tensor - 3))
    panels = []
    for stage in range(layout.pipeline):
        rows = []
        for start in grid.groups("tp", pp=stage):
            boxes = [
                _gpu(
                    page,
                    rank,
                    f"{axis} group {group_of[rank]}, node {rank // node}",
                    wide,
                    {
                        "role": piece_look(group_of[rank], len(every)),
                        "solid": group_of[rank] == 0,
                    },
                )
                for rank in start
            ]
            rows.append(page.beside(*boxes, gap=3))
        head = page.words(f"stage {stage}", small=True)
        panels.append(page.stacked(head, *rows, gap=3))
    page.flow(*panels, gap=16)
    many = "1 group" if len(every) == 1 else f"{len(every)} groups"
    first = ", ".join(map(str, every[0]))
    return page.done(f"{many} along {axis}; the first has ranks {first}")


# A decision, level by level

PATH = (
    "From the top down, take the first level that is at most 5% slower than the quickest layout of "
    "all; full: the one to take."
)
Level = tuple[str, str]  # its name, and what becomes of it


def path(jobs: Mapping[str, Sequence[Level]], *, caption: str = PATH, name: str = "") -> Shown:
    """What becomes of each level for some jobs; the last of a job's levels is taken, if it fits."""
    return figure(partial(_path, jobs=jobs), caption=caption, name=name)


def _path(width: float, jobs: Mapping[str, Sequence[Level]]) -> str:
    page = Canvas(width, "Down the decision path")
    levels = max(jobs.values(), key=len)
    wide = min(150.0, (width - 12 * (len(jobs) - 1)) / len(jobs) - 2)
    heads = [
        page.stacked(page.words(job, bold=True, small=True), page.space(wide, 1)) for job in jobs
    ]
    page.row(*heads, gap=12)
    told = []
    for number, (level, _) in enumerate(levels):
        page.row(page.words(level, small=True, quiet=True), above=10)
        boxes = [_verdict(page, steps, number, wide) for steps in jobs.values()]
        page.row(*boxes, gap=12, above=3)
    for job, steps in jobs.items():
        told.append(f"{job}: " + ", ".join(f"{level} {what}" for level, what in steps))
    return page.done("; ".join(told))


def _verdict(page: Canvas, steps: Sequence[Level], number: int, wide: float) -> Shape:
    """A level of a job: passed over, taken, or no longer asked."""
    if number >= len(steps):
        return page.space(wide, 26)
    level, what = steps[number]
    fits = what not in ("does not fit", "too few sequences")
    role = "predicted" if fits else "idle"
    taken = fits and number == len(steps) - 1
    return page.box(
        "", note=what, role=role, wide=wide, high=26, solid=taken, tight=True, hint=level
    )
