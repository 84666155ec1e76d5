"""Rank grids and their groups: which ranks share a tensor, a stage, a shard, a replica.

A mesh has named axes, fastest first: the ranks of the first axis are neighbours.
rank = sum over axes of coordinate * stride, where an axis' stride is the product of the sizes
before it.
The groups of an axis are the sets of ranks that differ in nothing but that axis.
tp tensor · cp context · ep expert · dp data · pp pipeline
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

from mathlib.checks import (
    InputError,
    divides,
    divisors,
    flag,
    instance,
    listed,
    one_of,
    quotient,
    whole,
)
from mathlib.layout import Layout
from mathlib.records import dataclass

MEGATRON = "tp-cp-ep-dp-pp"


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's garbage collector, which walks a million lists again and again while they
    are made, although lists of numbers can form no cycle; after it, on again if it was on before.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class Mesh:
    """A grid of ranks 0 .. world - 1 with named axes, fastest first."""

    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, Mapping) or not self.sizes:
            raise InputError(
                f"sizes = {self.sizes!r}: expected axes and their sizes, such as {{'tp': 2, 'dp': "
                f"4}}"
            )
        object.__setattr__(
            self, "sizes", {axis: whole(f"sizes[{axis!r}]", n) for axis, n in self.sizes.items()}
        )

    @property
    def world(self) -> int:
        """Ranks in all: the product of the sizes."""
        return prod(self.sizes.values())

    @property
    def strides(self) -> dict[str, int]:
        """Distance between neighbours along each axis."""
        strides, reach = {}, 1
        for axis, n in self.sizes.items():
            strides[axis], reach = reach, reach * n
        return strides

    def _coordinate(self, axis: str, value: int) -> int:
        """A position on an axis, checked."""
        size = self.sizes[one_of("axis", axis, self.sizes)]
        if whole(axis, value, least=0) >= size:
            raise InputError(f"{axis} = {value}: expected 0 to {size - 1}")
        return int(value)

    def rank(self, **coordinates: int) -> int:
        """The rank at these coordinates; axes that are not named are at 0."""
        strides = self.strides
        return sum(self._coordinate(axis, i) * strides[axis] for axis, i in coordinates.items())

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank stands on every axis."""
        if whole("rank", rank, least=0) >= self.world:
            raise InputError(f"rank = {rank}: expected 0 to {self.world - 1}")
        return {
            axis: int(rank) // stride % self.sizes[axis] for axis, stride in self.strides.items()
        }

    def ranks(self, **coordinates: int) -> list[int]:
        """All ranks at these coordinates, whatever the other axes are."""
        fixed = {axis: self._coordinate(axis, i) for axis, i in coordinates.items()}
        strides = self.strides
        found = [0]
        for a in reversed(list(self.sizes)):  # the slowest axis first, so that ranks come in order
            at = [fixed[a]] if a in fixed else range(self.sizes[a])
            steps = [i * strides[a] for i in at]
            found = [rank + step for rank in found for step in steps]
        return found

    def groups(self, *axes: str, **coordinates: int) -> list[list[int]]:
        """Groups of ranks that differ only along `axes`, in order of their first rank; only those
        at `coordinates`.
        """
        if not axes:
            raise InputError(f"axes = (): expected one or more of {', '.join(self.sizes)}")
        for axis in axes:
            one_of("axis", axis, self.sizes)
        for axis in coordinates:
            one_of("coordinate", axis, [a for a in self.sizes if a not in axes])
        inside = {axis: 0 for axis in self.sizes if axis not in axes}
        group, starts = self.ranks(**inside), self.ranks(**dict.fromkeys(axes, 0), **coordinates)
        with _uncollected():
            return [[start + step for step in group] for start in starts]

    def group_of(self, rank: int, *axes: str) -> list[int]:
        """The group along `axes` that a rank belongs to."""
        here = self.coordinates(rank)
        return self.groups(*axes, **{axis: i for axis, i in here.items() if axis not in axes})[0]

    def without(self, *axes: str) -> "Mesh":
        """The mesh whose ranks are this one's groups along `axes`: SageMaker numbers its tensor
        groups so.
        """
        for axis in axes:
            one_of("axis", axis, self.sizes)
        return Mesh({axis: n for axis, n in self.sizes.items() if axis not in axes} or {"all": 1})


def megatron(
    *, world: int, tp: int = 1, pp: int = 1, cp: int = 1, ep: int = 1, order: str = MEGATRON
) -> Mesh:
    """Megatron-LM's grid: dp = world / (tp cp pp); `order` names the axes, fastest first.

    With ep > 1 this is the grid of the experts, whose data degree is world / (tp ep pp) and which
    ignores cp (parallel_state.initialize_model_parallel).

    Chapter: together (eq-rank)
    """
    names = order.split("-") if isinstance(order, str) else []
    if sorted(names) != sorted(MEGATRON.split("-")) and sorted(names) != ["dp", "pp", "tp"]:
        raise InputError(
            f"order = {order!r}: expected the axes of {MEGATRON} in any order, or tp-dp-pp in any "
            "order"
        )
    if whole("ep", ep) > 1 and whole("cp", cp) > 1:
        raise InputError(f"cp = {cp}: expected 1 in the grid of the experts (ep = {ep})")
    sizes = {"tp": tp, "cp": cp, "ep": ep, "pp": pp}
    sizes["dp"] = quotient("world", world, sizes)
    for axis in sizes:
        if axis not in names and sizes[axis] > 1:
            raise InputError(f"order = {order!r}: names no {axis}, but {axis} = {sizes[axis]}")
    return Mesh({axis: sizes[axis] for axis in names})


def of_layout(layout: Layout, *, experts: bool = False) -> Mesh:
    """Megatron-LM's grid of a layout, or the grid of its experts, where context and data are one.

    Dense axes tp, cp, dp, pp; of the experts tp (those that share an expert), ep, dp (those that
    hold the same experts), pp.  Both have the same stages.

    Chapter: together (eq-rank)
    """
    lay = instance("layout", layout, Layout)
    if flag("experts", experts):
        sizes = {"tp": lay.expert_split, "ep": lay.expert, "dp": lay.expert_replicas}
    else:
        sizes = {"tp": lay.tensor, "cp": lay.context, "dp": lay.data}
    return Mesh(sizes | {"pp": lay.pipeline})


def neighbours(*, size: int, stride: int, node: int) -> int:
    """Ranks of a group that share a node: of `size` ranks, `stride` apart, those within
    `node`.

    Arithmetic, so that a group of a million ranks costs nothing; groups begin at
    multiples.

    Chapter: together (eq-neighbours)
    """
    most = whole("node", node) // whole("stride", stride)
    return min(whole("size", size), max(1, most))


def deepspeed(axes: Sequence[str], dims: Sequence[int]) -> Mesh:
    """DeepSpeed's ProcessTopology, and torch's DeviceMesh: row-major, so the LAST axis is the
    fastest.

    Chapter: together (eq-rank)
    """
    axes, dims = [str(one) for one in listed("axes", axes)], listed("dims", dims)
    if len(axes) != len(dims) or len(set(axes)) != len(axes):
        raise InputError(
            f"axes = {axes}, dims = {dims}: expected different axes and one size for each"
        )
    return Mesh(dict(zip(reversed(axes), reversed(dims), strict=True)))


def sagemaker(*, world: int, tensor: int = 1, shard: int = 1) -> Mesh:
    """MiCS as SageMaker lays it out: tensor groups of neighbours, sharding groups next,
    replicas of the shards last.

    Rule (the page says "smaller than" and "between 1 and"; 8 is allowed for 8):
    1 <= shard <= dp and dp % shard == 0.

    Chapter: mics
    """
    data = quotient("world", world, {"tensor": tensor})
    shard = divides("shard", shard, "the data-parallel degree", data)
    return Mesh({"tensor": int(tensor), "shard": shard, "replica": data // shard})


def valid_shards(*, world: int, tensor: int = 1) -> list[int]:
    """Every sharding degree that divides the data-parallel degree world / tensor.

    Chapter: mics
    """
    return divisors(quotient("world", world, {"tensor": tensor}))


def hierarchical_groups(ranks: int | Iterable[int], levels: Sequence[int]) -> list[list[list[int]]]:
    """Groups of every level, innermost first; the sizes of the levels multiply to the number of
    ranks.

    Megatron-LM's create_hierarchical_groups: 16 ranks in levels [2, 2, 4] give 8, 8 and 4 groups.

    Chapter: collectives
    """
    members = (
        listed("ranks", ranks)
        if isinstance(ranks, Iterable)
        else list(range(whole("ranks", ranks)))
    )
    members, levels = [whole("ranks", r, least=0) for r in members], listed("levels", levels)
    mesh = Mesh({str(i): whole("levels", n) for i, n in enumerate(levels)})
    if mesh.world != len(members):
        raise InputError(
            f"ranks = {ranks}, levels = {levels}: expected sizes that multiply to {len(members)} "
            "ranks"
        )
    return [
        [[members[i] for i in group] for group in mesh.groups(str(level))]
        for level in range(len(levels))
    ]


def embedding_groups(mesh: Mesh, pipeline: str = "pp") -> list[list[int]]:
    """First and last stage of every pipeline: the ranks that share a tied embedding's gradient.

    Chapter: pipeline
    """
    return [sorted({group[0], group[-1]}) for group in mesh.groups(pipeline)]
