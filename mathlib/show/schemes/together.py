"""Schemes of several kinds of parallelism together: every GPU, coloured by the group it is in.

Groups that are copies of each other have one colour; every second copy is pale.
"""

from functools import partial
from typing import Any

from mathlib.checks import one_of, quotient
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
