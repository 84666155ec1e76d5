"""Bytes one rank sends in a training step: tensor, pipeline, data parallelism, ZeRO, and what hides
behind compute.

b sequences a micro-batch · s tokens · h width · L layers · t tensor · p stages · v chunks a stage
e bytes an element · m micro-batches · P parameters on the rank before sharding
N data-parallel ranks · S ranks of a shard group · R replicas, N / S · X FLOP/s of a device
W bandwidth of its link
Every (N - 1)/N is exact; `large_group` takes it as 1, as papers print it: 2 P, 3 P, 12 b s h.
"""

import math

from mathlib.checks import (
    InputError,
    below,
    divides,
    flag,
    fraction,
    non_negative,
    one_of,
    positive,
    whole,
)
from mathlib.parts import Parts
from mathlib.specs import RECOMPUTE, Latent, Model, find_model, own_tokens

CONTEXT_METHODS = ("ring", "all-gather", "all-to-all")


def _share(n: int, large_group: bool) -> float:
    """(N - 1)/N: what one pass around a ring of N sends of K; none for a group of one, 1 for a
    large group.
    """
    return 1.0 if flag("large_group", large_group) and n > 1 else (n - 1) / n


def _stream(model: Model, micro_batch: int, tokens: int | None, bytes_per_element: float) -> float:
    """Bytes of a micro-batch in the residual stream: e b s h."""
    s = model.context if tokens is None else model.reach(whole("tokens", tokens))
    b, e = whole("micro_batch", micro_batch), positive("bytes_per_element", bytes_per_element)
    return b * s * model.width * e


def _gathers_again(regather: bool, sequence_parallel: bool) -> bool:
    """Whether inputs are gathered in the backward as well; only what was scattered can be."""
    again, scattered = flag("regather", regather), flag("sequence_parallel", sequence_parallel)
    if again and not scattered:
        raise InputError(
            "regather = True: expected sequence_parallel = True, which alone gathers again"
        )
    return again


def tensor_parallel(
    model: str | Model,
    *,
    tensor: int,
    micro_batch: int = 1,
    tokens: int | None = None,
    layers: int = 0,
    micro_batches: int = 1,
    recompute: str = "none",
    sequence_parallel: bool = False,
    regather: bool = False,
    bytes_per_element: float = 2,
    large_group: bool = False,
) -> Parts:
    """A layer all-reduces b s h twice forward and twice backward, twice more with full
    recomputation.

    Ring: 2 (t-1)/t of b s h each (Shoeybi et al. 2019; ZeRO section 8: 12 b s h with
    recomputation; torch's checkpoint stops before the layer's last sum, and sends one of the two).
    Attention and MLP side by side are reduced together, once instead of twice
    (Pope et al. 2022, section 3.4).
    Sequence parallelism replaces each all-reduce by an all-gather and a reduce-scatter, the same
    bytes; `regather` adds its two all-gathers a layer that rebuild the inputs in the backward pass
    (Korthikanti et al. 2022, 4.2.2).

    Chapter: tensor (eq-tensor-bytes)
    """
    model = find_model(model)
    t, m = divides("tensor", tensor, "heads", model.heads), whole("micro_batches", micro_batches)
    depth = whole("layers", layers, least=0) or model.layers
    k = _stream(model, micro_batch, tokens, bytes_per_element)
    blocks = 1 if model.parallel_block else 2
    ring = blocks * _share(t, large_group) * k * depth * m
    parts = {"forward": 2 * ring, "backward": 2 * ring}
    if one_of("recompute", recompute, RECOMPUTE) == "full":
        parts["recomputation"] = 2 * ring
    if _gathers_again(regather, sequence_parallel):
        parts["gathering inputs again"] = ring
    return Parts(f"Tensor parallel over {t}: sent by a rank in a step", "byte", parts)


def vocabulary_parallel(
    model: str | Model,
    *,
    tensor: int,
    micro_batch: int = 1,
    tokens: int | None = None,
    micro_batches: int = 1,
    sequence_parallel: bool = False,
    regather: bool = False,
    bytes_per_element: float = 2,
    loss_bytes: float = 4,
    large_group: bool = False,
) -> Parts:
    """An embedding and a head cut by words all-reduce b s h once each, the loss three numbers a
    token: the largest logit, the sum of the exponentials, the target's logit (Shoeybi et al. 2019,
    section 3).

    No rank has whole logits, which would be V numbers a token. Sequence parallelism sends the
    same, and with learned positions half of one more: the sum is cut after they are added, and its
    gradient gathered (Megatron Core's reduce_scatter_embeddings). `regather`: the head's input is
    gathered again in the backward pass, as in `tensor_parallel`.

    Chapter: tensor (eq-tensor-words)
    """
    model = find_model(model)
    t, m = whole("tensor", tensor), whole("micro_batches", micro_batches)
    k = _stream(model, micro_batch, tokens, bytes_per_element)
    n = k / model.width / bytes_per_element
    ring = _share(t, large_group) * m
    parts = {
        "embedding": 2 * ring * k,
        "head": 2 * ring * k,
        "loss": 3 * 2 * ring * n * positive("loss_bytes", loss_bytes),
    }
    if flag("sequence_parallel", sequence_parallel) and model.positions == "learned":
        parts["gradient of the embedding"] = ring * k
    if _gathers_again(regather, sequence_parallel):
        parts["gathering inputs again"] = ring * k
    return Parts(f"Words over {t} tensor ranks: sent by a rank in a step", "byte", parts)


def pipeline_parallel(
    model: str | Model,
    *,
    pipeline: int,
    stage: int = 0,
    chunks: int = 1,
    micro_batch: int = 1,
    micro_batches: int = 1,
    tokens: int | None = None,
    tensor: int = 1,
    scatter_gather: bool = False,
    bytes_per_element: float = 2,
) -> Parts:
    """A stage sends b s h on for every micro-batch and chunk, and as much back: v chunks send v
    times the messages.

    The last stage sends nothing on after its last chunk, the first nothing back from its first.
    `scatter_gather`:
    each of t tensor ranks sends 1/t (Narayanan et al. 2021, section 4.1); so does sequence
    parallelism.

    Chapter: pipeline (eq-pipeline-bytes)
    """
    model = find_model(model)
    p, v, m = (
        whole("pipeline", pipeline),
        whole("chunks", chunks),
        whole("micro_batches", micro_batches),
    )
    below("stage", stage, p)
    k, t = _stream(model, micro_batch, tokens, bytes_per_element), whole("tensor", tensor)
    k = k / t if flag("scatter_gather", scatter_gather) else k
    forward, backward = (v if stage < p - 1 else v - 1), (v if stage > 0 else v - 1)
    if p == 1:
        forward = backward = 0
    parts = {"forward": m * forward * k, "backward": m * backward * k}
    return Parts(f"Pipeline stage {stage} of {p}: sent in a step", "byte", parts)


def context_parallel(
    model: str | Model,
    *,
    context: int,
    method: str = "ring",
    micro_batch: int = 1,
    tokens: int | None = None,
    layers: int = 0,
    micro_batches: int = 1,
    tensor: int = 1,
    recompute: str = "none",
    bytes_per_element: float = 2,
    gradient_bytes: float | None = None,
) -> Parts:
    """Every rank meets the keys and values of all: cp - 1 blocks of them, e b s/cp 2 k d / t bytes
    each, go round forward; backward they go round again, and their gradients all the way home.

    "ring": blocks are passed on while the last one is used (Liu et al. 2023, arXiv:2310.01889), the
    gradients once more than the blocks. `gradient_bytes`: of a number in what goes home, 4 where it
    is added up in fp32, as torch's context_parallel does and ring-flash-attention; as wide as the
    blocks unless said. "all-gather": gathered at once, gathered again, and the
    gradients reduce-scattered (Llama 3, arXiv:2407.21783, section 3.3.2). "all-to-all": queries,
    keys, values and the output are exchanged for heads, and back (Ulysses, arXiv:2309.14509).

    Chapter: sequences (eq-ring-sent, eq-ulysses-sent)
    """
    model, m = find_model(model), whole("micro_batches", micro_batches)
    among, t = whole("context", context), divides("tensor", tensor, "heads", model.heads)
    depth = whole("layers", layers, least=0) or model.layers
    s = own_tokens(model.context if tokens is None else whole("tokens", tokens), among)
    each = whole("micro_batch", micro_batch) * s * positive("bytes_per_element", bytes_per_element)
    keys, others = each * _key_features(model, t) * depth * m, _query_features(model) / t
    if one_of("method", method, CONTEXT_METHODS) == "all-to-all":
        once = (keys + each * others * depth * m) * _share(among, False)
        parts = {"forward": once, "backward": once}
    else:
        home = among if method == "ring" and among > 1 else among - 1
        e, g = bytes_per_element, bytes_per_element if gradient_bytes is None else gradient_bytes
        wide = positive("gradient_bytes", g) / e
        parts = {"forward": (among - 1) * keys, "backward": (among - 1 + home * wide) * keys}
    if one_of("recompute", recompute, RECOMPUTE) != "none":
        parts["recomputation"] = parts["forward"]
    return Parts(f"Context parallel over {among}: sent by a rank in a step", "byte", parts)


def _key_features(model: Model, t: int) -> float:
    """Numbers of a token's keys and values on a tensor rank, which holds at least one head."""
    if model.latent:
        return model.heads / t * _latent_features(model.latent)
    return 2 * max(1, model.kv_heads / t) * model.head_dim


def _query_features(model: Model) -> int:
    """Numbers of a token's queries and of what attention makes of them."""
    each = _latent_features(model.latent) if model.latent else 2 * model.head_dim
    return model.heads * each


def _latent_features(latent: Latent) -> int:
    """Numbers of a head that enter the scores, and of its value."""
    return latent.nope_dim + latent.rope_dim + latent.value_dim


def expert_parallel(
    model: str | Model,
    *,
    expert: int,
    micro_batch: int = 1,
    tokens: int | None = None,
    layers: int = 0,
    micro_batches: int = 1,
    context: int = 1,
    tensor: int = 1,
    expert_tensor: int = 1,
    capacity: float = 0.0,
    recompute: str = "none",
    bytes_per_element: float = 2,
) -> Parts:
    """A layer sends every token to its experts and back, (ep-1)/ep E* e h bytes a token each way,
    forward and, for the gradients, backward (GShard, arXiv:2006.16668, section 3.2).

    E* experts that a token visits, loads balanced. An expert is whole on its rank: of t tensor
    ranks each sends its own 1/t of the tokens (sequence parallelism). `layers`: those with experts.
    `capacity`: every expert's box has so many times the rows that equal loads would send it,
    rounded up, and is sent whole, empty rows too; 0: the visits as they are, without a box.
    `expert_tensor`: ranks that each have a part of every expert: they gather their tokens, with E*
    weights each, and reduce-scatter what experts make of them; backward the same.

    Chapter: experts (eq-expert-bytes, eq-expert-parts, eq-expert-or-tensor)
    """
    model, m = find_model(model), whole("micro_batches", micro_batches)
    if not model.experts:
        raise InputError(f"model = {model.name!r}: expected one with experts")
    among = divides("expert", expert, "experts.routed", model.experts.routed)
    t = divides("expert_tensor", expert_tensor, "experts.width", model.experts.width)
    times = (whole("layers", layers, least=0) or model.expert_layers) * m
    s = own_tokens(model.context if tokens is None else whole("tokens", tokens), context)
    own = whole("micro_batch", micro_batch) * s / divides("tensor", tensor, "heads", model.heads)
    each, E = positive("bytes_per_element", bytes_per_element), model.experts.routed
    k = model.experts.active
    rows = t * own * k
    if factor := non_negative("capacity", capacity):
        rows = E * math.ceil(factor * rows / E)
    once = 2 * _share(among, False) * rows * each * model.width * times
    once += (t - 1) * own * (2 * model.width + k) * each * times
    parts = {"forward": once, "backward": once}
    if one_of("recompute", recompute, RECOMPUTE) == "full":
        parts["recomputation"] = once
    return Parts(f"Experts over {among}: sent by a rank in a step", "byte", parts)


def pipeline_tokens(*, parameters: float, width: int, data: int) -> float:
    """Tokens of a step from which on a stage sends as much as a data-parallel rank would:
    P/h (N-1)/N. The numbers of both have one type.

    Chapter: pipeline (eq-pipeline-tokens)
    """
    P, h, N = positive("parameters", parameters), whole("width", width), whole("data", data)
    return P / h * _share(N, False)


def zero(
    *,
    parameters: float,
    data: int,
    stage: int = 0,
    shard: int = 0,
    micro_batches: int = 1,
    weight_bytes: float = 2,
    gradient_bytes: float = 2,
    stage_one: str = "reduce-scatter",
    each_micro_batch: bool = True,
    keep_gathered: bool = False,
    large_group: bool = False,
) -> Parts:
    """Data-parallel bytes a rank sends in a step, times (N-1)/N: 2 P for stages 0 to 2,
    3 P for 3 (ZeRO, section 7).

    Accumulating over m micro-batches, stage 2 reduce-scatters and stage 3 also gathers
    twice at every one (`each_micro_batch` False: gradients only once); `keep_gathered`
    saves stage 3 its second gather.
    `stage_one` "all-reduce": gradients all-reduced, then weights gathered: 3 P, not 2.
    MiCS (arXiv:2205.00119): sharding over S of N ranks adds an all-reduce of P/S over
    the N/S replicas, once a step.

    Chapter: zero (eq-zero-one, eq-zero-two, eq-zero-three, eq-zero-many)
    Chapter: mics (eq-mics-bytes)
    """
    one_of("stage", stage, (0, 1, 2, 3))
    one_of("stage_one", stage_one, ("reduce-scatter", "all-reduce"))
    flag("keep_gathered", keep_gathered)
    N, m = whole("data", data), whole("micro_batches", micro_batches)
    S = divides("shard", whole("shard", shard, least=0) or N, "data", N) if stage else N
    P = positive("parameters", parameters)
    ring, weights = _share(S, large_group), P * positive("weight_bytes", weight_bytes)
    gradients = P * positive("gradient_bytes", gradient_bytes)
    reductions = m if flag("each_micro_batch", each_micro_batch) and stage >= 2 else 1
    passes = 2 if stage == 0 or (stage == 1 and stage_one == "all-reduce") else 1
    parts = {"gradients": passes * reductions * ring * gradients}
    if stage == 3:
        parts["weights, forward"] = m * ring * weights
        parts["weights, backward"] = 0 if keep_gathered else m * ring * weights
    elif stage:
        parts["weights"] = ring * weights
    if S < N:
        parts["gradients, replicas"] = 2 * _share(N // S, large_group) * gradients / S
    title = f"Data parallel, ZeRO stage {stage}, {N} ranks: sent by a rank in a step"
    return Parts(title, "byte", parts)


def zero_plus_plus(
    *,
    parameters: float,
    quantised_weights: bool = True,
    node_copy: bool = True,
    quantised_gradients: bool = True,
) -> Parts:
    """Stage 3 between nodes with ZeRO++ (arXiv:2306.10209): 0.5 M + 0 + 0.25 M instead of 3 M,
    where M = 2 P bytes.

    Weights travel as int8, the second gather stays inside a node that holds a copy, gradients
    travel as int4.

    Chapter: zero
    """
    whole_size = 2 * positive("parameters", parameters)  # bytes, M in the paper
    gather = whole_size / 2 if flag("quantised_weights", quantised_weights) else whole_size
    parts = {
        "weights, forward": gather,
        "weights, backward": 0 if flag("node_copy", node_copy) else gather,
        "gradients": whole_size / 4
        if flag("quantised_gradients", quantised_gradients)
        else whole_size,
    }
    return Parts("ZeRO++: sent between nodes by a rank in a step", "byte", parts)


def compression(*, warm_up: float, bits: float = 1, full_bits: float = 16) -> float:
    """How many times less 1-bit Adam sends: 1 / (w + (1 - w) bits/full_bits), w the share of steps
    sent in full.

    Tang et al. 2021, arXiv:2102.02888: 15% warm-up with fp16 gives the "up to 5x".

    Chapter: links
    """
    in_full = fraction("warm_up", warm_up)
    ratio = positive("bits", bits) / positive("full_bits", full_bits)
    return 1 / (in_full + (1 - in_full) * ratio)


def overlap_tokens(
    *,
    flops_per_second: float,
    bandwidth: float,
    data: int,
    gradient_bytes: float = 2,
    large_group: bool = False,
) -> float:
    """Tokens a rank needs in a step for its backward pass to last as long as the gradients' ring
    all-reduce.

    4 P D / X = 2 e P (N-1)/N / W: the parameter count cancels, D = e X (N-1)/N / (2 W). More layers
    do not help.

    Chapter: data_parallel (eq-hide)
    """
    X, W = positive("flops_per_second", flops_per_second), positive("bandwidth", bandwidth)
    return (
        positive("gradient_bytes", gradient_bytes)
        * X
        * _share(whole("data", data), large_group)
        / (2 * W)
    )
