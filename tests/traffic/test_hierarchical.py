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


def test_nodes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="ranks_per_node = 4: does not divide ranks = 6"):
        hierarchical.all_gather(payload=1, ranks=6, ranks_per_node=4)
