"""Groups against a brute-force enumeration of coordinates."""

import gc
from itertools import combinations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.traffic import mesh
from mathlib.traffic.mesh import Mesh

grids = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda sizes: Mesh(dict(zip("abcd", sizes, strict=False)))
)


def enumerated(grid: Mesh) -> list[dict[str, int]]:
    """Coordinates in order of rank, first axis fastest: an odometer, no arithmetic."""
    axes = list(grid.sizes)
    wheels = product(*(range(grid.sizes[axis]) for axis in reversed(axes)))
    return [dict(zip(reversed(axes), turn, strict=True)) for turn in wheels]


def test_a_grid_of_two_by_three_by_hand() -> None:
    grid = Mesh({"tp": 2.0, "dp": 3})
    assert grid.sizes == {"tp": 2, "dp": 3} and type(grid.sizes["tp"]) is int
    assert (grid.world, grid.strides) == (6, {"tp": 1, "dp": 2})
    assert grid.rank(dp=2.0) == 4 and type(grid.rank(dp=2.0)) is int
    assert grid.coordinates(5.0) == {"tp": 1, "dp": 2}
    assert type(grid.coordinates(5.0)["dp"]) is int
    assert grid.ranks(tp=1) == [1, 3, 5] and grid.ranks() == [0, 1, 2, 3, 4, 5]
    assert grid.groups("dp") == [[0, 2, 4], [1, 3, 5]]
    assert grid.groups("tp", dp=1) == [[2, 3]]
    assert grid.group_of(3, "dp") == [1, 3, 5]
    assert grid.without("tp").sizes == {"dp": 3}
    assert grid.without("tp", "dp").sizes == {"all": 1}


def test_whose_grid_numbers_how() -> None:
    assert mesh.deepspeed([0, 1], [2, 3]).sizes == {"1": 3, "0": 2}, "the last axis first"
    assert list(mesh.deepspeed(["a", "b"], [2, 3]).sizes) == ["b", "a"]
    assert mesh.megatron(world=8).sizes == {"tp": 1, "cp": 1, "ep": 1, "dp": 8, "pp": 1}
    assert mesh.megatron(world=8, tp=2, pp=2, order="pp-tp-dp").sizes == {"pp": 2, "tp": 2, "dp": 2}
    assert mesh.sagemaker(world=8).sizes == {"tensor": 1, "shard": 1, "replica": 8}
    assert type(mesh.sagemaker(world=8, tensor=2.0).sizes["tensor"]) is int
    assert mesh.valid_shards(world=12) == [1, 2, 3, 4, 6, 12]
    assert mesh.valid_shards(world=12, tensor=2) == [1, 2, 3, 6]
    assert mesh.hierarchical_groups((7, 0, 5, 2), [2, 2]) == [[[7, 0], [5, 2]], [[7, 5], [0, 2]]]
    assert mesh.hierarchical_groups(4, [2, 2]) == [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    assert mesh.embedding_groups(Mesh({"stage": 3, "dp": 2}), "stage") == [[0, 2], [3, 5]]


@given(grids)
def test_ranks_and_coordinates_are_an_odometer(grid: Mesh) -> None:
    places = enumerated(grid)
    assert grid.world == len(places) == prod(grid.sizes.values())
    for rank, place in enumerate(places):
        assert grid.coordinates(rank) == place
        assert grid.rank(**place) == rank


@given(grids)
def test_groups_of_an_axis_partition_the_ranks(grid: Mesh) -> None:
    places = enumerated(grid)
    for axis, size in grid.sizes.items():
        groups = grid.groups(axis)
        assert sorted(sum(groups, [])) == list(range(grid.world))
        assert {len(group) for group in groups} == {size}
        assert groups == sorted(groups) and all(group == sorted(group) for group in groups)
        for group in groups:
            fixed = [{a: i for a, i in places[rank].items() if a != axis} for rank in group]
            assert all(f == fixed[0] for f in fixed), (
                "members of a group differ in nothing but their axis"
            )
        assert all(grid.group_of(rank, axis) == group for group in groups for rank in group)


@given(grids)
def test_groups_of_two_axes_meet_in_one_rank_at_most(grid: Mesh) -> None:
    for one, other in combinations(grid.sizes, 2):
        for group in grid.groups(one):
            for crossing in grid.groups(other):
                assert len(set(group) & set(crossing)) <= 1
        for plane in grid.groups(one, other):
            assert all(
                len(set(g) & set(c)) == 1
                for g in grid.groups(one)
                if g[0] in plane
                for c in grid.groups(other)
                if c[0] in plane
            )


@given(grids)
def test_all_axes_together_are_the_world(grid: Mesh) -> None:
    assert grid.groups(*grid.sizes) == [list(range(grid.world))]


@given(grids)
def test_a_row_major_mesh_is_the_reverse_of_a_column_major_one(grid: Mesh) -> None:
    axes = list(grid.sizes)
    other = mesh.deepspeed(list(reversed(axes)), [grid.sizes[a] for a in reversed(axes)])
    assert all(other.groups(axis) == grid.groups(axis) for axis in axes)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.permutations(["tp", "cp", "ep", "dp", "pp"]),
)
def test_megatron_in_any_order(tp: int, cp: int, pp: int, dp: int, order: list[str]) -> None:
    grid = mesh.megatron(world=tp * cp * pp * dp, tp=tp, cp=cp, pp=pp, order="-".join(order))
    assert (grid.sizes["dp"], list(grid.sizes)) == (dp, order)
    stride = prod(grid.sizes[a] for a in order[: order.index("pp")])
    assert all(
        b - a == stride
        for group in grid.groups("pp")
        for a, b in zip(group, group[1:], strict=False)
    )


def test_a_tied_embedding_is_shared_by_first_and_last_stage() -> None:
    grid = mesh.megatron(world=12, tp=2, pp=3)
    assert mesh.embedding_groups(grid) == [[0, 8], [1, 9], [2, 10], [3, 11]]
    assert mesh.embedding_groups(mesh.megatron(world=2, tp=2)) == [[0], [1]], (
        "one stage shares with nobody"
    )


def test_experts_have_a_grid_of_their_own() -> None:
    dense, experts = mesh.megatron(world=16, tp=2, pp=2), mesh.megatron(world=16, tp=2, pp=2, ep=4)
    assert (dense.sizes["dp"], experts.sizes["dp"]) == (4, 1)
    assert experts.groups("ep")[0] == [0, 2, 4, 6]
    assert dense.groups("pp") == experts.groups("pp"), "Megatron-LM asserts the same"


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_mics_shards_inside_and_replicates_across(tensor: int, shard: int, replicas: int) -> None:
    grid = mesh.sagemaker(world=tensor * shard * replicas, tensor=tensor, shard=shard)
    assert list(grid.sizes.items()) == [
        ("tensor", tensor),
        ("shard", shard),
        ("replica", replicas),
    ], "in this order"
    for group in grid.groups("tensor"):
        assert group == list(range(group[0], group[0] + tensor)), "tensor groups are neighbours"
    for rank in range(grid.world):
        members = {
            r for peer in grid.group_of(rank, "shard") for r in grid.group_of(peer, "replica")
        }
        assert sorted(members) == grid.group_of(rank, "shard", "replica")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_hierarchical_groups_reach_everyone(levels: list[int]) -> None:
    ranks = [10 * r + 3 for r in range(prod(levels))]
    by_level = mesh.hierarchical_groups(ranks, levels)
    for n, groups in zip(levels, by_level, strict=True):
        assert sorted(sum(groups, [])) == ranks and {len(g) for g in groups} == {n}
    reached = {ranks[0]}
    for groups in by_level:
        reached = {r for group in groups if reached & set(group) for r in group}
    assert reached == set(ranks), "one step a level joins all of them"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Mesh({}), "sizes = {}"),
        (lambda: Mesh([2, 2]), "sizes = [2, 2]"),  # type: ignore[arg-type]
        (lambda: Mesh({"tp": 2}).without("pp"), "axis = 'pp'"),
        (lambda: Mesh({"tp": 2}).rank(dp=0), "axis = 'dp'"),
        (lambda: Mesh({"tp": 2}).rank(tp=-1), "tp = -1"),
        (lambda: Mesh({"tp": 2}).coordinates(-1), "rank = -1"),
        (lambda: mesh.megatron(world=8, order=8), "order = 8"),  # type: ignore[arg-type]
        (lambda: mesh.megatron(world=8, ep=2, order="tp-dp-pp"), "names no ep, but ep = 2"),
        (lambda: mesh.deepspeed(["a", "a"], [2, 2]), "expected different axes"),
        (lambda: mesh.hierarchical_groups([-1], [1]), "ranks = -1"),
        (lambda: mesh.hierarchical_groups(0, [1]), "ranks = 0"),
        (lambda: mesh.valid_shards(world=12, tensor=5), "does not divide world = 12"),
        (lambda: Mesh({"tp": 0}), "sizes['tp'] = 0"),
        (lambda: Mesh({"tp": 2}).groups(), "axes = ()"),
        (lambda: Mesh({"tp": 2}).groups("pp"), "axis = 'pp'"),
        (lambda: Mesh({"tp": 2, "dp": 2}).groups("tp", tp=0), "coordinate = 'tp'"),
        (lambda: Mesh({"tp": 2}).coordinates(2), "rank = 2: expected 0 to 1"),
        (lambda: Mesh({"tp": 2}).rank(tp=2), "tp = 2: expected 0 to 1"),
        (lambda: mesh.megatron(world=10, tp=4), "does not divide world = 10"),
        (lambda: mesh.megatron(world=8, tp=2.5), "tp = 2.5"),
        (lambda: mesh.megatron(world=8, order="tp-dp"), "order = 'tp-dp'"),
        (lambda: mesh.megatron(world=8, cp=2, order="tp-dp-pp"), "names no cp"),
        (lambda: mesh.megatron(world=16, cp=2, ep=2), "cp = 2"),
        (lambda: mesh.deepspeed(["a", "b"], [2]), "dims = [2]"),
        (lambda: mesh.sagemaker(world=32, tensor=4, shard=3), "accepted: 1, 2, 4, 8"),
        (lambda: mesh.sagemaker(world=32, tensor=4, shard=16), "accepted: 1, 2, 4, 8"),
        (lambda: mesh.hierarchical_groups(16, [2, 4]), "levels = [2, 4]"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)


@pytest.mark.parametrize("on", [True, False])
def test_groups_are_listed_without_the_garbage_collector(on: bool) -> None:
    grid, rounds, before = Mesh({"tp": 8, "dp": 2**13}), [], gc.isenabled()
    gc.collect()
    gc.callbacks.append(heard := lambda phase, info: rounds.append(phase))
    try:
        (gc.enable if on else gc.disable)()
        groups = grid.groups("tp")
        assert gc.isenabled() == on, "left as it was found"
        assert len(groups) == 2**13 and len(rounds) <= 2, "once at most, when it is on again"
        with pytest.raises(ZeroDivisionError), mesh._uncollected():
            assert not gc.isenabled()
            1 // 0  # noqa: B018
        assert gc.isenabled() == on
    finally:
        gc.callbacks.remove(heard)
        (gc.enable if before else gc.disable)()


def test_a_sharding_degree_may_equal_the_data_parallel_degree() -> None:
    assert mesh.sagemaker(world=8, shard=8).sizes["replica"] == 1


def test_a_layouts_ranks_stand_in_two_grids() -> None:
    """Megatron-LM with 16 ranks a stage: tensor 2, context 2, data 4; 8 x 2 for the experts."""
    lay = Layout(
        data=4, tensor=2, context=2, pipeline=2, expert=8, expert_tensor=1, sequence_parallel=True
    )
    dense, experts = mesh.of_layout(lay), mesh.of_layout(lay, experts=True)
    assert dense.sizes == {"tp": 2, "cp": 2, "dp": 4, "pp": 2}
    assert experts.sizes == {"tp": 1, "ep": 8, "dp": 2, "pp": 2}
    assert dense.world == experts.world == lay.world == 32
    assert dense.groups("pp") == experts.groups("pp")
    assert experts.group_of(3, "ep") == list(range(8))


@pytest.mark.parametrize(("size", "stride", "node"), [(8, 1, 8), (8, 2, 8), (4, 8, 8), (3, 1, 2)])
def test_ranks_of_a_group_that_share_a_node(size: int, stride: int, node: int) -> None:
    ranks = [i * stride for i in range(size)]
    assert mesh.neighbours(size=size, stride=stride, node=node) == sum(
        r // node == 0 for r in ranks
    )
