"""Long sequences by published figures, what others print of them, and two sizes worked through.

N ranks · s tokens · X FLOP/s of a device · W bandwidth
All of this is computed; what ran, ran elsewhere. The printed ring is run.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mathlib import specs
from mathlib.compute import flops
from mathlib.layout import Layout
from mathlib.memory import activations, fit, states
from mathlib.schedule import ring_time
from mathlib.specs import Model
from mathlib.traffic import volumes

LLAMA, DEVICE = specs.find_model("llama3-8b"), specs.find_device("h100-sxm")
REACH = 0.4  # of the peak, assumed: about what long sequences reach on H100s
NETWORK = 50e9  # bytes a second of each GPU between nodes: 400 Gbit/s
NODE = 8

# Its causal ring: iterations a second of 8 GPUs, and an eighth of a causal kernel's on one
BATCH, PACKED = "plain batch", "packed"
README = {  # github.com/zhuzilin/ring-flash-attention, README.md @01c8baf: batch API, varlen API
    ("8 H800", "forward", BATCH): {"ideal": 73.9, "plain": 38.5, "zigzag": 63.0, "stripe": 55.0},
    ("8 H800", "both", BATCH): {"ideal": 19.3, "plain": 10.4, "zigzag": 17.4, "stripe": 16.0},
    ("8 A100", "forward", BATCH): {"ideal": 46.7, "plain": 24.0, "zigzag": 38.2, "stripe": 32.5},
    ("8 A100", "both", BATCH): {"ideal": 11.8, "plain": 6.2, "zigzag": 10.6, "stripe": 9.75},
    ("8 H800", "forward", PACKED): {"ideal": 106.6, "plain": 52.4, "zigzag": 74.8},
    ("8 H800", "both", PACKED): {"ideal": 28.2, "plain": 14.4, "zigzag": 21.4},
    ("8 A100", "forward", PACKED): {"ideal": 66.5, "plain": 33.1, "zigzag": 47.9},
    ("8 A100", "both", PACKED): {"ideal": 16.7, "plain": 8.7, "zigzag": 13.4},
}
# Llama 3.1 8B, one sequence a replica, 8 H100s: context, tokens, tokens a second and GPU, GiB
TORCHTITAN = (  # benchmarks/llama3_h100_202412_torchtitan.md @31a17bf, Table 2
    (1, 32768, 3890, 83.9),
    (2, 65536, 2540, 84.2),
    (4, 131072, 1071, 84.0),
    (8, 262144, 548, 84.5),
)
ALST = ((1, 500e3), (8, 3.7e6), (32, 15e6))  # arXiv:2506.13996: GPUs, longest sequence, Llama 8B
# 12 layers of Llama 3 70B's shape, 4 of 405B's, 8 B200s, 4 micro-batches, Ulysses: layout, tokens,
# ms, GiB
SIMUMAX: tuple[
    tuple[str, dict[str, Any], int, float, float], ...
] = (  # docs/b200/b200_release_v1.2_summary.md @1b8ca90
    ("70B", {"tensor": 2, "context": 4}, 32768, 1758.0, 68.43),
    ("70B", {"context": 8}, 32768, 1768.1, 104.51),
    ("70B", {"tensor": 2, "context": 4}, 131072, 11315.7, 112.67),
    ("70B", {"context": 8}, 131072, 11301.9, 147.99),
    ("405B", {"tensor": 2, "context": 4}, 32768, 1984.7, 87.03),
    ("405B", {"context": 8}, 32768, 2003.6, 139.22),
    ("405B", {"tensor": 2, "context": 4}, 131072, 10577.6, 118.13),
)
LAYERS = {"70B": 12, "405B": 4}


def readme(order: str) -> dict[tuple[str, str, str], float]:
    """The printed share of the ideal, by GPUs, pass and documents, where it is printed."""
    return {c: row[order] / row["ideal"] for c, row in README.items() if order in row}


def flop_per_token(model: Model, tokens: int) -> float:
    """Of a step with full recomputation, of which a causal kernel skips half of the scores."""
    step = flops.training(model, tokens=tokens, causal=True, recompute="full")
    return step.total / tokens


def torchtitan() -> list[tuple[int, int, float, float]]:
    """Context degree, tokens, FLOP/s a GPU in multiples of the first row's, and what they would be
    if context parallelism cost nothing and 8-bit matmuls were twice as fast as attention.
    """
    rows = []
    for N, s, speed, _ in TORCHTITAN:
        shape = replace(LLAMA, context=s)
        work, share = flop_per_token(shape, s), scores_share(shape, s)
        rows.append((N, s, speed * work, 1 / (share + (1 - share) / 2)))
    _, _, rate, free = rows[0]
    return [(N, s, one / rate, other / free) for N, s, one, other in rows]


def scores_share(model: Model, tokens: int) -> float:
    """Of a forward's FLOP, what scores and values take, half of them skipped: about half of all at
    P / (L a d) tokens.

    Chapter: sequences (eq-long-sequence)
    """
    forward = flops.forward(model, tokens=tokens, causal=True)
    return (forward.amount("attention scores") + forward.amount("attention values")) / forward.total


def simumax() -> list[tuple[str, int, float, float, float]]:
    """Shape and layout, tokens, FLOP/s a GPU, GiB by the formulas and as allocated."""
    rows = []
    for model, layout, s, ms, gib in SIMUMAX:
        shape = specs.find_model(f"llama3-{model.lower()}")
        shape = replace(shape, layers=LAYERS[model], context=s, parameters=0)
        way = Layout(**layout, zero=1, micro_batches=4, sequence_parallel=True)
        needed = fit.training(
            shape, way, recipe="mixed-adam-fp32-gradients", loss="fused", fused_gate=True
        )
        work = 4 * flops.training(shape, tokens=s, causal=True).total
        name = f"{model}, TP {way.tensor}, CP {way.context}"
        rows.append((name, s, work / 8 / (ms / 1e3), needed.total / 2**30, gib))
    return rows


# Two sizes worked through


class Worked(NamedTuple):
    """What a rank of the context axis needs for a sequence, and for how long."""

    saved: float  # bytes of activations, nothing recomputed
    inputs: float  # with everything recomputed
    layer: float  # of one layer while it is recomputed
    loss: float  # at the logits: fp32 probabilities and two gradients, 12 bytes each
    states: float  # ZeRO-3 over these ranks
    sent: float  # in a step: by a ring
    exchanged: float  # by Ulysses over the ranks of a node
    seconds: float  # of the step's FLOP, backward of attention at twice forward
    again: float  # at 2.5 times, as a kernel that computes the scores again
    attention: float  # share of them in scores and values
    margin: float  # tokens of a rank over those from which on a ring's messages hide


def _step_flop(shape: Model, backward: float) -> float:
    """Everything recomputed; attention's backward has so many times its forward's."""
    how = {"causal": True, "recompute": "full", "attention_backward": backward}
    return flops.training(shape, tokens=shape.context, **how).total  # type: ignore[arg-type]


def _step_sends(shape: Model, ranks: int, method: str) -> float:
    """Bytes of a rank, forward sent twice."""
    how = {"recompute": "full", "gradient_bytes": 4, "method": method}
    return volumes.context_parallel(shape, context=ranks, **how).total  # type: ignore[arg-type]


def worked(tokens: int, ranks: int, model: Model = LLAMA) -> Worked:
    """One sequence of this length on so many H100s."""
    shape, own, X = replace(model, context=tokens), tokens // ranks, REACH * DEVICE.half
    how = {"context": ranks, "attention": "flash"}
    layer = activations.layer(shape, **how).total  # type: ignore[arg-type]
    inputs = activations.layer(shape, recompute="full", **how).total  # type: ignore[arg-type]
    once, again = (_step_flop(shape, times) / ranks / X for times in (2, 2.5))
    U = min(ranks, NODE)
    bandwidth = DEVICE.link_bandwidth if ranks <= NODE else NETWORK
    return Worked(
        shape.layers * layer,
        shape.layers * inputs,
        layer,
        12.0 * own * shape.vocab,
        states.model_states(model.parameters, zero=3, shard=ranks).total,
        _step_sends(shape, ranks, "ring"),
        _step_sends(replace(shape, context=U * own), U, "all-to-all"),
        once,
        again,
        scores_share(shape, tokens),
        own / ring_time.hidden_tokens(shape, achieved=X, bandwidth=bandwidth),
    )


# What others print


def printed(
    q: Tensor, k: Tensor, v: Tensor, ranks: int, own_masked: bool = False, skipping: bool = False
) -> Tensor:
    """Causal ring attention as a book of 2025 prints it, with the mask it leaves undefined: a block
    is masked if it does not begin at 0, and shifted by its own maximum.

    `own_masked` and `skipping` mend it: a mask for every block, none computed that is all future.
    """
    out, places = torch.zeros_like(v), torch.arange(len(q)).chunk(ranks)
    for r, mine in enumerate(places):
        top, total = torch.full((len(mine), 1), -torch.inf).to(q), torch.zeros(len(mine), 1).to(q)
        for step in range(ranks):
            theirs = places[(r - step) % ranks]
            if skipping and theirs[0] > mine[-1]:
                continue
            scores = q[mine] @ k[theirs].T * q.shape[1] ** -0.5
            if theirs[0] > 0 or own_masked:
                scores = scores.masked_fill(theirs > mine[:, None], -torch.inf)
            here = scores.amax(1, keepdim=True)
            larger = torch.maximum(top, here)
            weights, old, new = (scores - here).exp(), (top - larger).exp(), (here - larger).exp()
            total = total * old + weights.sum(1, keepdim=True) * new
            out[mine] = out[mine] * old + weights @ v[theirs] * new
            top = larger
        out[mine] /= total
    return out


def printed_rows(ranks: int = 4, own: int = 3, **mended: bool) -> dict[str, int]:
    """How many rows of the printed ring are NaN, see the future, or are right."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, ranks * own, 5, generator=draw, dtype=torch.float64)
    wanted = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    found = printed(q, k, v, ranks, **mended)
    nothing = found.isnan().any(1)
    right = (found - wanted).abs().amax(1) < 1e-9
    return {
        "NaN": int(nothing.sum()),
        "other numbers": int((~nothing & ~right).sum()),
        "right": int(right.sum()),
    }
