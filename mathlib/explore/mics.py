"""Experiments of the MiCS chapter: which rank holds which piece, and what crosses the node."""

from functools import partial

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import precision
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.show.figures import both, figure_html
from mathlib.show.kit import Canvas
from mathlib.show.schemes.mics import rank_rows
from mathlib.traffic import hierarchical, mesh

MODELS = ("gpt2-xl", "llama2-7b", "llama2-13b", "gpt-neox-20b", "llama2-70b", "gpt3-175b")
DRAWN = 6  # nodes


def crossing(
    payload: float, *, grid: mesh.Mesh, node: int, stages: bool, micro_batches: int
) -> dict[str, float]:
    """Bytes a node sends to others in a step: two gathers and a scatter a micro-batch in the
    sharding group, one sum over the copies.
    """
    K, S, R, m = payload, grid.sizes["shard"], grid.sizes["replica"], micro_batches
    order = "between nodes first" if stages else "ring"
    shape = {"payload": K, "ranks": S, "ranks_per_node": min(S, node)}
    gather = hierarchical.all_gather(**shape, order=order)["to other nodes"]
    scatter = hierarchical.all_gather(**shape, order="ring")["to other nodes"]
    away = R > 1 and grid.world > node
    rings = min(S, node)  # each leaves the node once, with a piece of the gradient
    return {
        "weights": 2 * m * gather,
        "gradients": m * scatter,
        "gradients, replicas": rings * 2 * (R - 1) / R * K / S if away else 0.0,
    }


def groups_picture(grid: mesh.Mesh, node: int, title: str) -> str:
    """Nodes as rows of ranks; a colour is a piece."""
    return figure_html(both(partial(_groups, grid=grid, node=node, title=title)))


def _groups(width: float, grid: mesh.Mesh, node: int, title: str) -> str:
    page = Canvas(width, title)
    nodes = grid.world // node
    rank_rows(page, grid, node, min(nodes, DRAWN))
    if nodes > DRAWN:
        page.note(f"and {nodes - DRAWN} nodes more")
    S = grid.sizes["shard"]
    return page.done(f"{nodes} nodes of {node}; ranks {S} apart hold the same piece")


@experiment(
    "sharding-groups",
    "Which rank holds which piece?",
    doubling("nodes", "Nodes", 1, 64, 2),
    doubling("node", "GPUs in a node", 2, 8, 8),
    doubling("shard", "Sharding degree", 1, 512, 8),
    Choice("model", "Model", specs.titled("models", MODELS), "gpt-neox-20b"),
    doubling("micro_batches", "Micro-batches in a step", 1, 16, 1),
    Toggle("stages", "Gather in stages, between nodes first", True),
    code=(mesh.sagemaker, hierarchical.all_gather),
)
def sharding_groups(
    nodes: int, node: int, shard: int, model: str, micro_batches: int, stages: bool
) -> str:
    P, N = params.count(model).total, nodes * node
    grid = mesh.sagemaker(world=N, shard=shard)
    here = crossing(2 * P, grid=grid, node=node, stages=stages, micro_batches=micro_batches)
    states = precision.bytes_per_parameter("mixed-adam").total * P / shard
    copies = N // shard
    say = (
        f'<p class="mlx-say"><b>{copies} {"copies" if copies > 1 else "copy"} of the model</b>, '
        f"{says.size(states)} of states on each GPU. In a step a node sends "
        f"<b>{says.size(sum(here.values()))}</b> to other nodes.</p>"
    )
    picture = groups_picture(grid, node, f"{N} GPUs, sharded over {shard}")
    rows = [(f"degree {shard}", here)]
    rows += [
        (f"degree {S}{why}", _parts(2 * P, N, S, node, stages, micro_batches))
        for S, why in ((node, ", one node"), (N, ", all GPUs"))
        if S != shard
    ]
    bars = svg.bars(rows, title="From a node to other nodes in a step", show=says.size)
    law = equation(
        "M = kappa * P / S",
        M=(states, says.size(states)),
        kappa=(16, "16 bytes"),
        P=(P, says.count(P)),
        S=shard,
    )
    return f"{say}{picture}{bars}<p>The states on a GPU:</p>{law}"


def _parts(payload: float, world: int, shard: int, node: int, stages: bool, m: int) -> dict:
    grid = mesh.sagemaker(world=world, shard=shard)
    return crossing(payload, grid=grid, node=node, stages=stages, micro_batches=m)
