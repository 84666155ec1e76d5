"""What an all-gather sends from node to node: as one ring, or in stages, and in which order.

K payload: bytes of the whole row · N ranks of the group, node by node · g ranks inside a node
"""

from mathlib.checks import non_negative, one_of, quotient, whole
from mathlib.parts import Parts

ORDERS = ("ring", "between nodes first", "inside nodes first")


def all_gather(
    *,
    payload: float,
    ranks: int,
    ranks_per_node: int,
    order: str = "between nodes first",
) -> Parts:
    """Bytes that a node sends to other nodes, and that its ranks send to each other.

    A ring through all ranks leaves every node once: (N-1)/N K. Between nodes first,
    each of a node's g ranks sends its piece round a ring of N/g: (N-g)/N K; then the
    N/g stretches of a row are gathered inside (MiCS, arXiv:2205.00119, section 3.3).
    Inside nodes first, each of them has the node's g pieces to send round: g times as
    much.

    Chapter: mics (eq-between-nodes)
    """
    K, N = non_negative("payload", payload), whole("ranks", ranks)
    g = min(N, whole("ranks_per_node", ranks_per_node))
    nodes = quotient("ranks", N, {"ranks_per_node": g})
    one_of("order", order, ORDERS)
    if nodes == 1:
        between, inside = 0.0, (N - 1) * K
    elif order == "ring":
        between, inside = (N - 1) / N * K, (g - 1) * (N - 1) / N * K
    elif order == "between nodes first":
        between, inside = (N - g) / N * K, (g - 1) * K
    else:
        between, inside = g * (N - g) / N * K, g * (g - 1) / N * K
    return Parts(
        f"All-gather over {N} ranks, {g} in a node, {order}: sent by a node",
        "byte",
        {"to other nodes": between, "inside the node": inside},
    )
