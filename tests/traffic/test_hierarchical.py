"""Bytes between nodes against messages sent one by one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.traffic import hierarchical


def walked(nodes: int, g: int, order: str) -> tuple[int, int]:
    """(to other nodes, inside the node) that node 0 sends, in pieces, message by message."""
    ranks = [(node, place) for node in range(nodes) for place in range(g)]
    messages: list[tuple[tuple[int, int], tuple[int, int], int]] = []  # from, to, pieces

    def ring(members: list[tuple[int, int]], pieces: int) -> None:
        n = len(members)
        for _, i in product(range(n - 1), range(n)):
            messages.append((members[i], members[(i + 1) % n], pieces))

    if order == "ring":
        ring(ranks, 1)
    for place in range(g) if order != "ring" else ():
        ring([(node, place) for node in range(nodes)], 1 if order.startswith("between") else g)
    for node in range(nodes) if order != "ring" else ():
        for _ in range(nodes if order.startswith("between") else 1):
            ring([(node, place) for place in range(g)], 1)
    left = sum(n for (a, _), (b, _), n in messages if a == 0 and b != 0)
    stayed = sum(n for (a, _), (b, _), n in messages if a == 0 and b == 0)
    return left, stayed


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(hierarchical.ORDERS))
def test_the_formula_counts_the_messages(nodes: int, g: int, order: str) -> None:
    ranks = nodes * g
    found = hierarchical.all_gather(payload=ranks, ranks=ranks, ranks_per_node=g, order=order)
    assert tuple(found.values()) == pytest.approx(walked(nodes, g, order))


def test_two_nodes_of_eight() -> None:
    ring, first, last = (
        hierarchical.all_gather(payload=16, ranks=16, ranks_per_node=8, order=order).amount(
            "to other nodes"
        )
        for order in hierarchical.ORDERS
    )
    assert (ring, first, last) == (15, 8, 64)


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_scatter_is_the_gather_backwards(nodes: int, g: int) -> None:
    shape = {"payload": nodes * g, "ranks": nodes * g, "ranks_per_node": g}
    for order, mirror in zip(
        hierarchical.ORDERS, ("ring", "inside nodes first", "between nodes first"), strict=True
    ):
        found = hierarchical.reduce_scatter(**shape, order=mirror)
        assert tuple(found.values()) == pytest.approx(walked(nodes, g, order))


@given(st.integers(1, 5), st.integers(1, 5))
def test_all_to_all_sends_every_rank_its_piece_directly(nodes: int, g: int) -> None:
    N = nodes * g
    found = hierarchical.reduce_scatter(payload=N, ranks=N, ranks_per_node=g, order="all-to-all")
    pairs = [(a // g, b // g) for a in range(g) for b in range(N) if a != b]
    left = sum(a != b for a, b in pairs)
    assert tuple(found.values()) == pytest.approx((left, len(pairs) - left))


def left_in_a_step(ranks: int, shard: int, **how: object) -> hierarchical.Parts:
    return hierarchical.step(payload=1.0, ranks=ranks, shard=shard, ranks_per_node=8, **how)


def test_a_group_inside_a_node_only_sends_its_sums() -> None:
    found = left_in_a_step(16, 8)
    assert found["weights"] == found["gradients"] == 0
    assert found["gradients, replicas"] == 8 * 2 * 1 / 2 / 8


def test_one_copy_sends_no_sums_and_one_node_sends_nothing() -> None:
    assert left_in_a_step(16, 16)["gradients, replicas"] == 0
    assert left_in_a_step(8, 4).total == 0


def test_micro_batches_multiply_all_but_the_sums() -> None:
    once, thrice = left_in_a_step(64, 16), left_in_a_step(64, 16, micro_batches=3)
    assert thrice["weights"] == 3 * once["weights"]
    assert thrice["gradients"] == 3 * once["gradients"]
    assert thrice["gradients, replicas"] == once["gradients, replicas"]


def test_stages_send_less_than_one_ring() -> None:
    staged, rings = left_in_a_step(16, 16), left_in_a_step(16, 16, gather="ring", scatter="ring")
    assert (staged["weights"], staged["gradients"]) == (2 * 8 / 16, 8 / 16)
    assert (rings["weights"], rings["gradients"]) == (2 * 15 / 16, 15 / 16)


def test_nodes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="ranks_per_node = 4: does not divide ranks = 6"):
        hierarchical.all_gather(payload=1, ranks=6, ranks_per_node=4)
