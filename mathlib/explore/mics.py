"""Experiments of the MiCS chapter: which rank holds which shard, and what crosses the node."""

from functools import partial

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import precision
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.show.figures import both, figure_html
from mathlib.show.kit import Canvas
from mathlib.show.rank_grid import rank_rows
from mathlib.traffic import hierarchical, mesh

MODELS = ("gpt2-xl", "llama2-7b", "llama2-13b", "gpt-neox-20b", "llama2-70b", "gpt3-175b")
DRAWN = 6  # nodes


def groups_picture(grid: mesh.Mesh, node: int, title: str) -> str:
    """Nodes as rows of ranks; a colour is a shard."""
    return figure_html(both(partial(_groups, grid=grid, node=node, title=title)))


def _groups(width: float, grid: mesh.Mesh, node: int, title: str) -> str:
    page = Canvas(width, title)
    nodes = grid.world // node
    rank_rows(page, grid, node, min(nodes, DRAWN))
    if nodes > DRAWN:
        page.note(f"and {nodes - DRAWN} nodes more")
    S = grid.sizes["shard"]
    return page.done(f"{nodes} nodes of {node}; ranks {S} apart hold the same shard")


@experiment(
    "sharding-groups",
    "Which rank holds which shard?",
    doubling("nodes", "Nodes", 1, 64, 8),
    doubling("node", "GPUs in a node", 2, 8, 8),
    doubling("shard", "Sharding degree", 1, 512, 16),
    Choice("model", "Model", specs.titled("models", MODELS), "gpt-neox-20b"),
    doubling("micro_batches", "Micro-batches in a step", 1, 16, 1),
    Toggle("gather", "Hierarchical all-gather", True),
    Toggle("scatter", "Hierarchical reduce-scatter", True),
    code=(mesh.sagemaker, hierarchical.step),
)
def sharding_groups(
    nodes: int, node: int, shard: int, model: str, micro_batches: int, gather: bool, scatter: bool
) -> str:
    P, N = params.count(model).total, nodes * node
    grid = mesh.sagemaker(world=N, shard=shard)

    def left(S: int) -> dict[str, float]:
        parts = hierarchical.step(
            payload=2 * P,
            ranks=N,
            shard=S,
            ranks_per_node=node,
            micro_batches=micro_batches,
            gather="between nodes first" if gather else "ring",
            scatter="inside nodes first" if scatter else "ring",
        )
        return {name: parts.amount(name) for name in parts}

    here = left(shard)
    states = precision.bytes_per_parameter("mixed-adam").total * P / shard
    replicas = f"{N // shard} {'replicas' if shard < N else 'replica'} of the model"
    say = (
        f'<p class="mlx-say"><b>{replicas}</b>, '
        f"{says.size(states)} of states on each GPU. In a step a node sends "
        f"<b>{says.size(sum(here.values()))}</b> to other nodes.</p>"
    )
    picture = groups_picture(grid, node, f"{N} GPUs, sharded over {shard}")
    rows = [(f"degree {shard}", here)]
    rows += [
        (f"degree {S}{why}", left(S))
        for S, why in ((node, ", one node"), (N, ", all GPUs"))
        if shard != S
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


@experiment(
    "sharding-knobs",
    "What the knobs cost and save",
    doubling("threshold", "Tensors stay whole below, elements", 1, 2**30, 2**20),
    doubling("live", "Live parameters at most, millions", 1, 16384, 1024),
    doubling("bucket", "Bucket size, millions of elements", 1, 16384, 512),
    Choice("model", "Model", specs.titled("models", MODELS[:-1]), "gpt-neox-20b"),
    doubling("shard", "Sharding degree", 1, 512, 16),
    code=(precision.bytes_per_parameter,),
)
def sharding_knobs(threshold: int, live: int, bucket: int, model: str, shard: int) -> str:
    tensors = params.tensors(model)
    small = {size: n for size, n in tensors.items() if size < threshold}
    P = sum(size * n for size, n in tensors.items())
    stay = sum(size * n for size, n in small.items())
    kappa = precision.bytes_per_parameter("mixed-adam").total
    chip = specs.find_device("a100-40gb")
    parts = {
        "model states": kappa * (P - stay) / shard,
        "small tensors": kappa * stay,
        "live weights": 2 * min(live * 1e6, P - stay) if shard > 1 else 0,
        "gradient buckets": 2 * 2 * min(bucket * 1e6, P - stay) if shard > 1 else 0,
    }
    cut = sum(tensors.values()) - sum(small.values())
    added = sum(parts.values()) - kappa * P / shard
    say = (
        f'<p class="mlx-say">Two gathers each for <b>{cut if shard > 1 else 0:,} of '
        f"{sum(tensors.values()):,} tensors</b> in a micro-batch; the rest stays whole. The knobs "
        f"add <b>{says.size(added)}</b> to {says.size(kappa * P / shard)} of states.</p>"
    )
    bars = svg.bars(
        [("on a GPU", {name: size for name, size in parts.items() if size})],
        title="Memory of a GPU, without activations",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    return say + bars
