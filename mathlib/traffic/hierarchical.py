"""What a gather and a scatter send from node to node: in a ring or in two steps, in which order.

K payload: bytes of the whole row · N ranks of the group, node by node · g ranks inside a node
S ranks of a shard group · R replicas of it · m micro_batches
"""

from mathlib.checks import non_negative, one_of, quotient, whole
from mathlib.parts import Parts
from mathlib.traffic import mesh

ORDERS = ("ring", "between nodes first", "inside nodes first")
MIRROR = dict(zip(ORDERS, ("ring", "inside nodes first", "between nodes first"), strict=True))
SCATTERS = (*ORDERS, "all-to-all")


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
    Inside nodes first, each of them has the node's g shards to send round: g times as
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


def reduce_scatter(
    *,
    payload: float,
    ranks: int,
    ranks_per_node: int,
    order: str = "inside nodes first",
) -> Parts:
    """Bytes that a node sends to other nodes, and that its ranks send to each other.

    A reduce-scatter is a gather backwards, and so is the order that is cheap: inside
    nodes first, a node's g rows become one sum, and (N-g)/N K leaves. One ring sends
    (N-1)/N K; between nodes first, or all-to-all, every rank's row leaves by itself: g
    (N-g)/N K.

    Chapter: mics
    """
    one_of("order", order, SCATTERS)
    mirrored = all_gather(
        payload=payload,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        order=MIRROR.get(order, "inside nodes first"),
    )
    between, inside = mirrored.values()
    return Parts(
        f"Reduce-scatter over {ranks} ranks, {order}: sent by a node",
        "byte",
        {"to other nodes": between, "inside the node": inside},
    )


def step(
    *,
    payload: float,
    ranks: int,
    shard: int,
    ranks_per_node: int,
    micro_batches: int = 1,
    gather: str = "between nodes first",
    scatter: str = "inside nodes first",
) -> Parts:
    """Bytes that a node sends to others in a step of MiCS: in each of m micro-batches
    two gathers and a scatter of K in the sharding group; one sum over the R copies.

    Each of a node's min(S, g) different shards goes round the copies by a ring of its
    own: min(S, g) 2 (R-1)/R K/S. What stands in no layer is taken as a layer.

    Chapter: mics
    """
    K, m = non_negative("payload", payload), whole("micro_batches", micro_batches)
    grid = mesh.sagemaker(world=whole("ranks", ranks), shard=shard)
    S, R = grid.sizes["shard"], grid.sizes["replica"]
    g = min(S, whole("ranks_per_node", ranks_per_node))
    one_of("gather", gather, ORDERS)
    one_of("scatter", scatter, SCATTERS)
    gathered = all_gather(payload=K, ranks=S, ranks_per_node=g, order=gather)
    scattered = reduce_scatter(payload=K, ranks=S, ranks_per_node=g, order=scatter)
    sums = g * 2 * (R - 1) / R * K / S if ranks > ranks_per_node else 0.0
    return Parts(
        f"A step of {ranks} ranks sharded over {S}: sent by a node",
        "byte",
        {
            "weights": 2 * m * gathered.amount("to other nodes"),
            "gradients": m * scattered.amount("to other nodes"),
            "gradients, replicas": sums,
        },
    )
