"""Bytes of activations: what a forward pass keeps for the backward pass, by layer and stage.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V padded vocabulary
s tokens · b micro_batch · t tensor · p stages · v chunks a stage · m micro_batches
e bytes an element (2: half precision)
A layer keeps s b h (34 + 5 a s / h) bytes for e = 2 (Korthikanti et al. 2022, equation 1). That is
already bytes.
"""

from mathlib.checks import (
    InputError,
    below,
    ceil_div,
    divides,
    flag,
    instance,
    non_negative,
    one_of,
    positive,
    whole,
)
from mathlib.memory.saved_tensors import (
    FP32,
    INDEX,
    MASK,
    Kept,
    Saving,
    has_experts,
    layer_tensors,
    norm_bytes,
    saving_of,
    shares,
)
from mathlib.parts import Part, Parts
from mathlib.specs import (
    RECOMPUTE,
    Layout,
    Model,
    find_model,
    own_tokens,
    tensor_degree,
    uneven_layers,
)

SCHEDULES = ("1f1b", "gpipe")


def layer(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    attention: str | None = None,
    dropout: bool | None = None,
    bytes_per_element: float = 2,
    fused_gate: bool = False,
    expert_results: bool = True,
    small_tensors: bool = False,
    autocast: bool = False,
    separate: bool | None = None,
    index: int = 0,
    context: int = 1,
) -> Parts:
    """Bytes one layer keeps for one micro-batch on one device (Korthikanti et al. 2022,
    equations 1 to 4, Table 2).

    none: s b h (34 + 5as/h); tensor: s b h (10 + 24/t + 5as/(ht)); with sequence
    parallel all of it / t.
    selective drops the attention's core and leaves 34, full keeps the layer's input: 2.
    attention and dropout: the model's own unless said; "flash" never holds the s x s
    scores.
    `expert_results` False: a program that weights inside the gate's kernel (Megatron-LM
    since 2025) keeps the copies that go to experts, not what comes back.
    `small_tensors` adds what papers leave out: norm statistics, causal mask,
    log-sum-exp.
    `autocast`: as torch.autocast on CUDA, whose residual stream and softmax are fp32.
    It casts the input of every linear layer for itself: `separate` says that queries,
    keys and values have layers of their own, and so gate and up; unless said, where the
    MLP is gated, as in LLaMA.
    `index` says which layer, where dense and expert layers differ.
    `context`: ranks that share a sequence; each keeps what belongs to its own tokens.

    Chapter: memory (eq-activations, eq-gated)
    Chapter: tensor (eq-tensor-activations, eq-tensor-sequence)
    """
    model = find_model(model)
    asked = (attention, dropout, bytes_per_element, fused_gate, expert_results)
    how = saving_of(model, *asked, small_tensors, autocast, separate=separate)
    t, b = tensor_degree(model, tensor), whole("micro_batch", micro_batch)
    s = _own_tokens(model, tokens, context, how)
    if whole("index", index, least=0) >= model.layers:
        raise InputError(f"index = {index}: expected 0 to {model.layers - 1}")
    one_of("recompute", recompute, RECOMPUTE)
    kept = layer_tensors(model, s, b, t, how, recompute, index)
    title = f"Activations of a layer of {model.title}: {how.words}"
    split = flag("sequence_parallel", sequence_parallel)
    return Parts(title, "byte", shares(kept, t, split))


def kept_by(
    model: str | Model,
    how: Saving,
    *,
    tokens: int | None = None,
    tensor: int = 1,
    context: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> float:
    """Bytes that the first layer keeps of one sequence, as `layer` counts them, where a program has
    conventions of its own: inputs of linear layers in 8 bits, a list of what selective keeps.

    Chapter: memory
    """
    model, how = find_model(model), instance("how", how, Saving)
    t, s = tensor_degree(model, tensor), _own_tokens(model, tokens, context, how)
    kept = layer_tensors(model, s, 1, t, how, one_of("recompute", recompute, RECOMPUTE), 0)
    groups = shares(kept, t, flag("sequence_parallel", sequence_parallel))
    return Parts("", "byte", groups).total


def sequence_length(model: Model, tokens: int | None) -> int:
    return model.context if tokens is None else whole("tokens", tokens)


def _own_tokens(model: Model, tokens: int | None, context: int, how: Saving) -> int:
    """Tokens of a sequence that a rank keeps; only a fused kernel never holds the scores of all."""
    s = own_tokens(sequence_length(model, tokens), context)
    if context > 1 and how.attention != "flash":
        raise InputError(f"context = {context}: expected attention = 'flash', or context = 1")
    return s


def hidden_state(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    bytes_per_element: float = 2,
) -> float:
    """Bytes of one tensor of the residual stream: e s b h.

    Chapter: memory
    """
    model = find_model(model)
    n = sequence_length(model, tokens) * whole("micro_batch", micro_batch)
    return positive("bytes_per_element", bytes_per_element) * n * model.width


def ulysses(
    model: str | Model,
    *,
    context: int,
    micro_batch: int = 1,
    tokens: int | None = None,
    bytes_per_element: float = 2,
) -> float:
    """Bytes that a layer keeps beyond `layer` where its ranks exchange heads: attention's result by
    heads, as the kernel made it, beside that by tokens, which the projection reads. A ring keeps no
    more than `layer` says.

    Chapter: sequences (eq-ulysses-kept)
    """
    model = find_model(model)
    wide = model.heads * (model.latent.value_dim if model.latent else model.head_dim)
    n = own_tokens(sequence_length(model, tokens), context) * whole("micro_batch", micro_batch)
    each = positive("bytes_per_element", bytes_per_element)
    return n * wide * each if context > 1 else 0.0


def in_flight(
    *, pipeline: int, micro_batches: int, chunks: int = 1, stage: int = 0, schedule: str = "1f1b"
) -> float:
    """Micro-batches whose activations a stage holds at its peak, in units of all layers of the
    stage.

    GPipe: m. 1F1B: min(p - stage, m). Interleaved: min(2 (p - stage - 1) + (v - 1) p + 1, m v) / v,
    from m = 2p on p (1 + (p - 1)/(p v)) on the first stage (Narayanan et al. 2021, section 2.2).

    Chapter: pipeline (eq-held)
    """
    p, m, v = (
        whole("pipeline", pipeline),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    rank = below("stage", stage, p)
    if one_of("schedule", schedule, SCHEDULES) == "gpipe":
        return m
    if v == 1:
        return min(p - rank, m)
    divides("pipeline", p, "micro_batches", m)
    return min(2 * (p - rank - 1) + (v - 1) * p + 1, m * v) / v


def ends_in_flight(
    *, pipeline: int, micro_batches: int, chunks: int = 1, schedule: str = "1f1b"
) -> tuple[int, int]:
    """Micro-batches held by the first stage's first chunk and by the last stage's last one, which
    have the embedding and the head.

    Interleaved: min(2p, m) and 1; else what `in_flight` says of the stages.

    Chapter: pipeline
    """
    p, m, v = (
        whole("pipeline", pipeline),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    if one_of("schedule", schedule, SCHEDULES) == "gpipe":
        return m, m
    if v == 1:
        return min(p, m), 1
    divides("pipeline", p, "micro_batches", m)
    return min(2 * p, m), 1


def stage(
    model: str | Model,
    layout: Layout,
    *,
    stage: int = 0,
    schedule: str = "1f1b",
    tokens: int | None = None,
    logits_bytes: float = 4,
    attention: str | None = None,
    dropout: bool | None = None,
    bytes_per_element: float = 2,
    fused_gate: bool = False,
    expert_results: bool = True,
    small_tensors: bool = False,
    autocast: bool = False,
    separate: bool | None = None,
) -> Parts:
    """Bytes a device of a pipeline stage holds at its peak: its layers times the micro-batches in
    flight, and its ends.

    First stage: + the embedding's dropout mask s b h a micro-batch in flight. Last stage: + final
    norm and head inputs 2 e s b h and the fp32 probabilities 4 s b V / t, V padded to a multiple of
    t (Korthikanti et al. 2022, section 4.3).

    Chapter: memory (eq-activations)
    """
    model, layout = find_model(model), instance("layout", layout, Layout)
    asked = (attention, dropout, bytes_per_element, fused_gate, expert_results)
    how = saving_of(model, *asked, small_tensors, autocast, separate=separate)
    s, logits = (
        _own_tokens(model, tokens, layout.context, how),
        non_negative("logits_bytes", logits_bytes),
    )
    parts = _layers(model, layout, stage, schedule, s, how)
    parts |= _ends(model, layout, stage, schedule, s, how, logits)
    title = f"Activations of {model.title}, stage {stage} of {layout.pipeline}: {how.words}"
    return Parts(title, "byte", parts)


def _flight(layout: Layout) -> dict[str, int]:
    """What decides how many micro-batches are in flight."""
    p, m, v = layout.pipeline, layout.micro_batches, layout.chunks
    return {"pipeline": p, "micro_batches": m, "chunks": v}


def _layers(
    model: Model, layout: Layout, stage: int, schedule: str, s: int, how: Saving
) -> dict[str, Part]:
    """What a stage's layers keep, those with experts apart, times the micro-batches in flight."""
    flying = in_flight(stage=stage, schedule=schedule, **_flight(layout))
    t, b = tensor_degree(model, layout.tensor), layout.micro_batch
    held, parts = layers_of(model, layout, stage), dict[str, Part]()
    kinds = {
        "layers": [i for i in held if not has_experts(model, i)],
        "expert layers": [i for i in held if has_experts(model, i)],
    }
    for name, indices in kinds.items():
        if indices:
            kept = layer_tensors(model, s, b, t, how, layout.recompute, indices[0])
            words = f"{len(indices)} layers, {flying:g} micro-batches"
            one = Parts(words, "byte", shares(kept, t, layout.sequence_parallel))
            parts[name] = one.scaled(len(indices) * flying, words)
    return parts


def _ends(
    model: Model, layout: Layout, stage: int, schedule: str, s: int, how: Saving, logits: float
) -> dict[str, Part]:
    """What embedding and head keep, where they are, times the micro-batches in flight there."""
    first, last = ends_in_flight(schedule=schedule, **_flight(layout))
    n, t, kept = s * layout.micro_batch, layout.tensor, list[Kept]()
    if stage == 0:
        kept += [one._replace(bytes=one.bytes * first) for one in _embedding(model, n, how)]
    if stage == layout.pipeline - 1:
        kept += [one._replace(bytes=one.bytes * last) for one in _head(model, n, t, how, logits)]
    return shares(kept, t, layout.sequence_parallel)


def layers_of(model: str | Model, layout: Layout, stage: int = 0) -> list[int]:
    """Layers of a stage, counted from 0: v slices of L / (p v), v slices apart from stage to
    stage; where that divides not, some have one fewer, the ends first.

    Chapter: pipeline
    """
    p = instance("layout", layout, Layout).pipeline
    return uneven_layers(find_model(model).layers, p, layout.chunks)[below("stage", stage, p)]


def _embedding(model: Model, tokens: int, how: Saving) -> list[Kept]:
    kept = list(norm_bytes("embedding", "its", model, tokens, how)) if model.embedding_norm else []
    if how.dropout:
        kept.append(Kept("embedding", "dropout mask", MASK * tokens * model.width, False))
    if how.small_tensors:
        kept.append(Kept("embedding", "token numbers", INDEX * tokens, False, whole=True))
    return kept


def _head(model: Model, tokens: int, t: int, how: Saving, logits_bytes: float) -> list[Kept]:
    kept = list(norm_bytes("head", "final", model, tokens, how)) if model.final_norm else []
    probabilities = logits_bytes * tokens * vocabulary(model, t)
    kept += [
        Kept("head", "input", how.bytes_per_element * tokens * model.width, False),
        Kept("head", "probabilities", probabilities, True),
    ]
    if how.small_tensors:  # the loss also keeps the targets and how many of them count
        kept += [
            Kept("head", "targets", INDEX * tokens, False, whole=True),
            Kept("head", "number of targets", FP32, False, whole=True),
        ]
    return kept


def vocabulary(model: str | Model, tensor: int) -> int:
    """Rows of the embedding table, padded to a multiple of t as Megatron-LM pads them.

    Chapter: memory
    """
    V, t = find_model(model).padded_vocab, whole("tensor", tensor)
    return ceil_div(V, t) * t
