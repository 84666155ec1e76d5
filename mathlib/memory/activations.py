"""Bytes of activations: what a forward pass keeps for the backward pass, tensor by tensor.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V padded vocabulary
s tokens · b micro_batch · t tensor · p stages · v chunks a stage · m micro_batches
e bytes an element (2: half precision)
A layer keeps s b h (34 + 5 a s / h) bytes for e = 2 (Korthikanti et al. 2022, equation 1). That is
already bytes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from mathlib.checks import (
    InputError,
    divides,
    flag,
    instance,
    non_negative,
    one_of,
    positive,
    whole,
)
from mathlib.parts import Part, Parts
from mathlib.specs import RECOMPUTE, Experts, Latent, Layout, Model, find_model

ATTENTION = ("standard", "flash")
SCHEDULES = ("1f1b", "gpipe")
MASK, FP32, INDEX = (
    1,
    4,
    8,
)  # bytes: of a dropout or causal mask's bool, of a statistic, of a token's number (int64)


class Kept(NamedTuple):
    """A tensor that the backward pass needs."""

    group: str  # norms, attention, mlp
    name: str
    bytes: float
    split: bool  # tensor parallelism splits it; the rest only sequence parallelism does
    core: bool = False  # inside the attention's core: selective recomputation drops it


def _norm(
    group: str, name: str, model: Model, tokens: int, e: float, small: bool
) -> Iterator[Kept]:
    yield Kept(group, f"{name} norm input", e * tokens * model.width, False)
    if (
        small
    ):  # a LayerNorm keeps mean and 1/deviation of every token in fp32, an RMSNorm only the latter
        yield Kept(
            group,
            f"{name} norm statistics",
            (1 if model.norm == "rmsnorm" else 2) * FP32 * tokens,
            False,
        )


def _heads(model: Model, tokens: int, e: float, t: int) -> Iterator[Kept]:
    """Queries, keys and values; multi-head latent attention also keeps its latents before and after
    their norm.
    """
    a, d, z = model.heads, model.head_dim, model.latent
    k = -(-model.kv_heads // t) * t  # a device holds at least one head of keys and values
    if isinstance(z, Latent):
        for name, wide in (("query latent", z.query_rank), ("key-value latent", z.kv_rank)):
            if wide:
                yield Kept("attention", name, 2 * e * tokens * wide, False)
        scored, valued = a * (z.nope_dim + z.rope_dim), a * z.value_dim
    else:
        scored, valued = a * d, k * d
        if model.query_key_norm:
            yield Kept("attention", "before query and key norm", e * tokens * (a + k) * d, True)
    yield Kept("attention", "queries", e * tokens * scored, True)
    yield Kept("attention", "keys", e * tokens * (scored if z else k * d), True)
    yield Kept("attention", "values", e * tokens * valued, True)


def _attention(
    model: Model, s: int, b: int, e: float, t: int, kind: str, dropout: bool, small: bool
) -> Iterator[Kept]:
    a, tokens, scores = model.heads, s * b, model.heads * s * s * b
    yield Kept("attention", "input", e * tokens * model.width, False)
    yield from _heads(model, tokens, e, t)
    if kind == "standard":
        yield Kept("attention", "softmax", e * scores, True, core=True)
        if dropout:
            yield Kept("attention", "softmax mask", MASK * scores, True, core=True)
            yield Kept("attention", "softmax after dropout", e * scores, True, core=True)
        if small:
            yield Kept("attention", "causal mask", MASK * s * s, False, core=True)
    elif small:
        yield Kept("attention", "log-sum-exp", FP32 * a * tokens, True, core=True)
    wide = a * (model.latent.value_dim if model.latent else model.head_dim)
    yield Kept("attention", "projection input", e * tokens * wide, True)
    if dropout:
        yield Kept("attention", "output mask", MASK * tokens * model.width, False)


def _linear_pair(model: Model, width: int, tokens: int, e: float, fused: bool) -> Iterator[Kept]:
    """Between the linear layers: GELU keeps its input, its output is the next input; a gate adds
    one tensor or two.
    """
    names = ["activation input", "second input"]
    if model.gated:
        names = ["gate", "up", "second input"] + ([] if fused else ["activated gate"])
    for name in names:
        yield Kept("mlp", name, e * tokens * width, True)


def _mlp(
    model: Model, tokens: int, e: float, dropout: bool, fused: bool, experts: Experts | None
) -> Iterator[Kept]:
    h = model.width
    if model.block_norms != 1:  # with one norm a layer, attention and MLP read the same tensor
        yield Kept("mlp", "input", e * tokens * h, False)
    # balanced load: every token is copied to the experts it visits, their outputs are weighted and
    # added
    if experts:
        yield Kept("mlp", "router probabilities", FP32 * tokens * experts.routed, False)
        yield Kept("mlp", "copies to experts", e * tokens * h * experts.active, False)
        yield from _linear_pair(
            model, experts.width * (experts.active + experts.shared), tokens, e, fused
        )
        yield Kept("mlp", "outputs of experts", e * tokens * h * experts.active, False)
    else:
        yield from _linear_pair(model, model.ffn_width, tokens, e, fused)
    if dropout:
        yield Kept("mlp", "output mask", MASK * tokens * h, False)


def _shares(kept: list[Kept], tensor: int, sequence_parallel: bool) -> dict[str, Part]:
    """What one device holds of the tensors, by group."""
    groups: dict[str, dict[str, float]] = {}
    for one in kept:
        share = one.bytes / tensor if one.split or sequence_parallel else one.bytes
        groups.setdefault(one.group, {})[one.name] = share
    return {group: Parts(group, "byte", named) for group, named in groups.items()}


def layer(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    attention: str = "standard",
    dropout: bool = True,
    bytes_per_element: float = 2,
    fused_gate: bool = False,
    small_tensors: bool = False,
    index: int = 0,
) -> Parts:
    """Bytes one layer keeps for one micro-batch on one device (Korthikanti et al. 2022, equations 1
    to 4, Table 2).

    none: s b h (34 + 5as/h); tensor: s b h (10 + 24/t + 5as/(ht)); with sequence parallel all of it
    / t.
    selective drops the attention's core and leaves 34, full keeps the layer's input: 2.
    attention "flash" never holds the s x s scores. `small_tensors` adds what papers leave out: norm
    statistics, causal mask, log-sum-exp. `index` says which layer, where dense and expert layers
    differ.
    """
    model, t = find_model(model), whole("tensor", tensor)
    b, s = whole("micro_batch", micro_batch), _length(model, tokens)
    one_of("recompute", recompute, RECOMPUTE)
    one_of("attention", attention, ATTENTION)
    for name, value in (
        ("sequence_parallel", sequence_parallel),
        ("dropout", dropout),
        ("fused_gate", fused_gate),
        ("small_tensors", small_tensors),
    ):
        flag(name, value)
    n, e = s * b, positive("bytes_per_element", bytes_per_element)
    divides("tensor", t, "heads", model.heads)
    if whole("index", index, least=0) >= model.layers:
        raise InputError(f"index = {index}: expected 0 to {model.layers - 1}")
    if recompute == "full":
        kept = [Kept("kept for recomputation", "layer input", e * n * model.width, False)]
        return Parts(
            f"Activations of a layer of {model.name}", "byte", _shares(kept, t, sequence_parallel)
        )
    kept = [
        one
        for i in range(model.block_norms)
        for one in _norm("norms", f"{i + 1}.", model, n, e, small_tensors)
    ]
    kept += _attention(model, s, b, e, t, attention, dropout, small_tensors)
    moe = model.experts if model.experts and index >= model.experts.dense_layers else None
    kept += _mlp(model, n, e, dropout, fused_gate, moe)
    if recompute == "selective":
        kept = [one for one in kept if not one.core]
    return Parts(
        f"Activations of a layer of {model.name}", "byte", _shares(kept, t, sequence_parallel)
    )


def _length(model: Model, tokens: int | None) -> int:
    return model.context if tokens is None else whole("tokens", tokens)


def hidden_state(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    bytes_per_element: float = 2,
) -> float:
    """Bytes of one tensor of the residual stream: e s b h."""
    model = find_model(model)
    n = _length(model, tokens) * whole("micro_batch", micro_batch)
    return positive("bytes_per_element", bytes_per_element) * n * model.width


def in_flight(
    *, pipeline: int, micro_batches: int, chunks: int = 1, stage: int = 0, schedule: str = "1f1b"
) -> float:
    """Micro-batches whose activations a stage holds at its peak, in units of all layers of the
    stage.

    GPipe: m. 1F1B: min(p - stage, m). Interleaved, from m = 2p on: (2 (p - stage - 1) + (v - 1) p +
    1) / v, which is p (1 + (p - 1)/(p v)) on the first stage (Narayanan et al. 2021, section 2.2);
    at m = p Megatron-LM runs all forwards first, so every stage holds p.
    """
    p, m, v = (
        whole("pipeline", pipeline),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    rank = whole("stage", stage, least=0)
    if rank >= p:
        raise InputError(f"stage = {stage}: expected 0 to {p - 1}")
    if one_of("schedule", schedule, SCHEDULES) == "gpipe":
        return m
    if v == 1:
        return min(p - rank, m)
    divides("pipeline", p, "micro_batches", m)
    return p if m == p else (2 * (p - rank - 1) + (v - 1) * p + 1) / v


def stage(
    model: str | Model,
    layout: Layout,
    *,
    stage: int = 0,
    schedule: str = "1f1b",
    tokens: int | None = None,
    logits_bytes: float = 4,
    attention: str = "standard",
    dropout: bool = True,
    bytes_per_element: float = 2,
    fused_gate: bool = False,
    small_tensors: bool = False,
) -> Parts:
    """Bytes a device of a pipeline stage holds at its peak: its layers times the micro-batches in
    flight, and its ends.

    First stage: + the embedding's dropout mask s b h a micro-batch in flight. Last stage: + final
    norm and head inputs 2 e s b h and the fp32 probabilities 4 s b V / t (Korthikanti et al. 2022,
    section 4.3).
    """
    model, layout = find_model(model), instance("layout", layout, Layout)
    b, last = layout.micro_batch, layout.pipeline - 1
    s, e = _length(model, tokens), bytes_per_element
    flying = in_flight(
        pipeline=layout.pipeline,
        micro_batches=layout.micro_batches,
        chunks=layout.chunks,
        stage=stage,
        schedule=schedule,
    )
    held, dense = (
        layers_of(model, layout, stage),
        model.experts.dense_layers if model.experts else model.layers,
    )
    parts: dict[str, Part] = {}
    kinds = {
        "layers": [i for i in held if i < dense],
        "expert layers": [i for i in held if i >= dense],
    }
    for name, indices in kinds.items():
        if indices:
            one = layer(
                model,
                micro_batch=b,
                tokens=s,
                tensor=layout.tensor,
                recompute=layout.recompute,
                sequence_parallel=layout.sequence_parallel,
                attention=attention,
                dropout=dropout,
                bytes_per_element=e,
                fused_gate=fused_gate,
                small_tensors=small_tensors,
                index=indices[0],
            )
            parts[name] = one.scaled(
                len(indices) * flying, f"{len(indices)} layers, {flying:g} micro-batches"
            )
    ends = _embedding(model, s * b, dropout, small_tensors) if stage == 0 else []
    ends += _head(model, s * b, e, logits_bytes, small_tensors) if stage == last else []
    held_at_ends = [one._replace(bytes=one.bytes * flying) for one in ends]
    parts |= _shares(held_at_ends, layout.tensor, layout.sequence_parallel)
    return Parts(f"Activations of {model.name}, stage {stage} of {layout.pipeline}", "byte", parts)


def layers_of(model: str | Model, layout: Layout, stage: int = 0) -> list[int]:
    """Layers of a stage, counted from 0: v slices of L / (p v), p v slices apart from stage to
    stage.
    """
    layout = instance("layout", layout, Layout)
    p, v, size = (
        layout.pipeline,
        layout.chunks,
        layout.layers_of_stage(find_model(model).layers) // layout.chunks,
    )
    if whole("stage", stage, least=0) >= p:
        raise InputError(f"stage = {stage}: expected 0 to {p - 1}")
    return [(c * p + stage) * size + i for c in range(v) for i in range(size)]


def _embedding(model: Model, tokens: int, dropout: bool, small: bool) -> list[Kept]:
    kept = (
        [Kept("embedding", "dropout mask", MASK * tokens * model.width, False)] if dropout else []
    )
    return kept + ([Kept("embedding", "token numbers", INDEX * tokens, False)] if small else [])


def _head(model: Model, tokens: int, e: float, logits_bytes: float, small: bool) -> list[Kept]:
    kept = list(_norm("head", "final", model, tokens, e, small)) if model.final_norm else []
    probabilities = non_negative("logits_bytes", logits_bytes) * tokens * model.padded_vocab
    kept += [
        Kept("head", "input", e * tokens * model.width, False),
        Kept("head", "probabilities", probabilities, True),
    ]
    if small:  # the loss also keeps the targets and how many of them count
        kept += [
            Kept("head", "targets", INDEX * tokens, False),
            Kept("head", "number of targets", FP32, False),
        ]
    return kept


def zero_rule(
    *,
    layers: int,
    width: int,
    tokens: int,
    micro_batch: int = 1,
    elements: float = 12,
    bytes_per_element: float = 2,
) -> float:
    """The ZeRO paper's rule, 12 h b s L elements (Rajbhandari et al. 2019, footnote 3); it leaves
    out s x s.
    """
    L, h, s, b = (
        whole(name, n)
        for name, n in (
            ("layers", layers),
            ("width", width),
            ("tokens", tokens),
            ("micro_batch", micro_batch),
        )
    )
    return (
        positive("elements", elements)
        * positive("bytes_per_element", bytes_per_element)
        * h
        * b
        * s
        * L
    )
