"""What a rank sends in a step along each axis, by the formulas: to be set beside what it has sent.

b sequences of a replica's batch · s tokens · L layers of this stage · e bytes of a number
Loads of experts are taken as equal. Stages go round (1F1B, GPipe, interleaved), no layer is
recomputed, and the gradient's norm is not asked for.
"""

from typing import Any

from mathlib.checks import ceil_div
from mathlib.parallel.experts.expert_layer import ExpertLayer
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.parallel.together.grid import COPIES, PIPELINE
from mathlib.parallel.together.hybrid_parallel import HybridParallel
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import comm, volumes

WORD = 8  # bytes of a whole number: a count, or which expert a token chose


def predicted(way: HybridParallel, sequences: int, tokens: int) -> dict[str, float]:
    """Bytes by axis of a run over so many sequences of a replica, and an update."""
    e = next(iter(way.stage.places)).element_size()
    found = dict.fromkeys((PIPELINE, COPIES), 0.0) | dict.fromkeys(way.grid.groups, 0.0)
    of: dict[str, Any] = {"micro_batch": sequences, "bytes_per_element": e}
    found[PIPELINE] = volumes.pipeline_parallel(
        way.model,
        pipeline=way.layout.pipeline,
        stage=way.grid.at["pp"],
        chunks=len(way.stage.chunks),
        tokens=tokens // way.layout.context,
        tensor=way.split,
        scatter_gather=way.split > 1,
        **of,
    ).total
    for c, called in way.stage.chunks.items():
        layers = len(way.stage.inside[c].blocks)
        if way.layout.context > 1:
            how: dict[str, Any] = {
                "context": way.layout.context,
                "tensor": way.layout.tensor,
                "tokens": tokens,
            }
            found["context"] += volumes.context_parallel(
                way.model, **how, layers=layers, **of
            ).total
        if isinstance(called, TensorParallel):
            found["tensor"] += _tensor(way, called, tokens // way.layout.context, of)
        for axis, size in _experts(way, c, tokens, of).items():
            found[axis] += size
    for axis, size in _sums(way, e).items():
        found[axis] += size
    return {axis: size for axis, size in found.items() if size}


def _tensor(way: HybridParallel, called: TensorParallel, tokens: int, of: dict[str, Any]) -> float:
    """Of a chunk's layers and ends, and of gradients of which each tensor rank has a part."""
    chunk: object = called.model
    layers = list(chunk.blocks.children())  # type: ignore[attr-defined]
    split = way.layout.sequence_parallel
    of = of | {"tensor": called.ranks, "tokens": tokens}
    of |= {"sequence_parallel": split, "regather": split}
    each = volumes.tensor_parallel(way.model, layers=1, **of).total / 2
    blocks = sum(1 if _routed_alone(layer) else 2 for layer in layers)
    words = volumes.vocabulary_parallel(way.model, loss_bytes=of["bytes_per_element"], **of)
    ends = {
        "embedding": called.first,
        "gradient of the embedding": called.first,
        "head": called.last,
        "loss": called.last,
        "gathering inputs again": called.last,
    }
    total = each * blocks + sum(words.amount(name) for name in words if ends[name])
    m = way.layout.micro_batches
    for name, p in called.model.named_parameters():
        many = called.partial(name) if name in called.cuts else 1
        total += m * comm.sent("all-reduce", payload=p.nbytes, ranks=many) if many > 1 else 0
    return total


def _routed_alone(layer: object) -> bool:
    """Whether a layer has nothing but routed experts in place of an MLP."""
    mlp = layer.mlp  # type: ignore[attr-defined]
    return isinstance(mlp, ExpertLayer) and mlp.shared is None


def _experts(way: HybridParallel, chunk: int, tokens: int, of: dict[str, Any]) -> dict[str, float]:
    """Tokens to experts and back, how many come, and what parts of the same experts gather."""
    blocks = way.stage.inside[chunk].blocks.children()
    layers = [block.mlp for block in blocks if isinstance(block.mlp, ExpertLayer)]
    if not layers:
        return {}
    lay, (P, t) = way.layout, map(way.grid.size, ("expert", "expert tensor"))
    of = of | {"tokens": tokens, "context": lay.context, "tensor": way.split}
    of |= {"layers": len(layers), "expert_tensor": t}
    parts = volumes.expert_parallel(way.model, expert=1, **of).total
    both = volumes.expert_parallel(way.model, expert=P, **of).total
    own = of["micro_batch"] * tokens // (lay.context * way.split)
    counts = WORD * layers[0].total * (P - 1) / P * lay.micro_batches * len(layers)
    chosen = WORD * layers[0].active * own * (t - 1) * len(layers)
    return {"expert": both - parts + counts, "expert tensor": parts + chosen}


def _sums(way: HybridParallel, e: int) -> dict[str, float]:
    """Gradients over the ranks with the same weights, ZeRO's gathers, and the count of tokens."""
    of: dict[str, Any] = {"stage": way.layout.zero, "micro_batches": way.layout.micro_batches}
    of |= {"weight_bytes": e, "gradient_bytes": e}
    N, found = way.grid.size("data"), dict[str, float]()
    ties = {tie for chunk in way.stage.inside.values() for tie in chunk.ties.values()}
    tied = way.layout.pipeline > 1 and any(chunk.ties for chunk in way.stage.inside.values())
    both = sum(p.numel() for p, place in way.stage.places.items() if tied and place.name in ties)
    for expert, axis in ((False, "data"), (True, "expert data")):
        own = _numbers(way, expert) - (0 if expert or way.layout.zero else both)
        n = way.grid.size(axis)
        stays = _outside_of_layers(way) if way.layout.zero == 3 and not expert else 0
        found[axis] = sum(
            volumes.zero(parameters=some, data=n, keep_gathered=kept, **of).total
            for some, kept in ((own - stays, False), (stays, True))
            if some
        )
    found["data"] += comm.sent("all-reduce", payload=WORD, ranks=N) if N > 1 else 0
    if both:
        ranks, payload = (2, ceil_div(both, N)) if way.layout.zero else (2 * N, both)
        found[COPIES] = comm.sent("all-reduce", payload=e * payload, ranks=ranks)
    return found


def _outside_of_layers(way: HybridParallel) -> int:
    """What ZeRO 3 gathers for a chunk's forward and has until the end of its backward."""
    rests = [zero.rows[zero.module] for zero in way.updates.zeros if isinstance(zero, Zero3)]
    return sum(row.length * row.ranks for rest in rests for row in rest)


def _numbers(way: HybridParallel, expert: bool) -> int:
    """Parameters of this rank's experts, or the others; with ZeRO as its rows pad them."""
    places = way.stage.places
    if not way.layout.zero:
        return sum(p.numel() for p, place in places.items() if place.expert == expert)
    rows = [leaf.row for leaf in way.updates.leaves if leaf.row]
    mine = [row for row in rows if places[next(iter(row.names))].expert == expert]
    return sum(row.length * row.ranks for row in mine)
