"""All-reduce over two levels.  n nodes of g ranks, K bytes."""

from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import comm
from mathlib.workshop.collectives import all_gather, all_reduce, reduce_scatter
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import of, sketch
from mathlib.workshop.training import gradient_sum

INSIDE, BETWEEN = Link(40.0, 0.1), Link(4.0, 1.0)  # ten times slower between nodes


async def start(me, gradient, node_size):
    first = me.rank - me.rank % node_size
    node = list(range(first, first + node_size))
    return await all_reduce(me, gradient, node)


async def solution(me, gradient, node_size):
    first = me.rank - me.rank % node_size
    node = list(range(first, first + node_size))
    across = list(range(me.rank % node_size, me.size, node_size))
    shard = await reduce_scatter(me, gradient, node)
    shard = await all_reduce(me, shard, across)
    return await all_gather(me, shard, node)


def trial(nodes: int, g: int, numbers: int) -> Trial:
    title = f"{nodes} nodes of {g} ranks, {numbers} numbers"
    cluster = Cluster((g,) * nodes, inside=INSIDE, between=BETWEEN)
    return gradient_sum(title, cluster, numbers, most(nodes, g, NUMBER * numbers), g)


def most(nodes: int, g: int, payload: int) -> tuple[Budget, ...]:
    """What leaves a node is a shard from each of its ranks; they share the node's port."""
    _, across = comm.hierarchical(payload=payload, levels=(g, nodes))
    seconds = comm.hierarchical_time(
        payload=payload,
        levels=(g, nodes),
        bandwidths=(INSIDE.bandwidth, BETWEEN.bandwidth / g),
        latencies=(INSIDE.latency, BETWEEN.latency),
    ).total
    return (
        Budget("bytes between nodes", g * across.total, "2 K (n-1) for n nodes"),
        Budget("time", seconds, "the time inside a node and the time across, added up"),
    )


PUZZLE = Puzzle(
    name="levels",
    title="All-reduce over two levels",
    chapter="collectives",
    grade=2,
    task="""\
Ranks of a node have fast links, and all of them share one slow port to the other nodes.
A flat ring sends nearly the whole gradient twice over each slow port. Let each node sum
first, so that a rank has one summed shard, and let only shards travel between nodes.
`reduce_scatter`, `all_reduce` and `all_gather` take a list of ranks as their group.
Return the sum over all ranks, with 2 K (n-1) bytes between n nodes.""",
    hints=(
        "Rank r has two groups: its node, and the ranks that have the same place in other nodes.",
        "Reduce-scatter inside the node, all-reduce across nodes, all-gather inside the node.",
        "The second group is `range(me.rank % node_size, me.size, node_size)`.",
    ),
    sketch=sketch(4, lambda r: [of(r)] * 2, lambda r: [of(0, 1, 2, 3)] * 2),
    trials=lambda: [trial(2, 2, 8), trial(3, 2, 12), trial(2, 3, 18)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
