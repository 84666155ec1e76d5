"""Floating-point operations of matmuls: forward, backward, recomputation, by part.

B sequences · s tokens of one · c cached tokens · L layers · h width · a heads · d head_dim
f ffn_width · V padded vocabulary · P parameters · D tokens of a run
r, i, o rows, inputs and outputs of a matmul, which is 2 r i o FLOP (multiply, add).

Norms, activations, softmax and the embedding look-up are no matmuls and count 0.  Counts are whole
numbers.
"""

from typing import Any

from mathlib.checks import flag, instance, one_of, positive, whole
from mathlib.compute.params import matrices
from mathlib.parts import Part, Parts
from mathlib.specs import RECOMPUTE, Model, Window, find_model


def matmul(*, rows: int, inner: int, columns: int) -> int:
    """2 r i o: every one of the r o results takes i multiplications and i additions.

    Chapter: compute (eq-product)
    """
    r, i, o = whole("rows", rows), whole("inner", inner), whole("columns", columns)
    return 2 * r * i * o


def head_dims(model: Model) -> tuple[int, int]:
    """Features of one head that enter the scores, and that its values have."""
    latent = model.latent
    if latent:
        return latent.nope_dim + latent.rope_dim, latent.value_dim
    # Transformer-XL scores content and distance apart: a second matmul over the same features
    return (2 if model.positions == "relative" else 1) * model.head_dim, model.head_dim


def attention_pairs(
    *, tokens: int, past: int = 0, causal: bool = False, window: Window | None = None
) -> int:
    """Query-key pairs of a sequence: s (c + s) full, s c + s (s + 1) / 2 causal (a token sees
    itself and the past).

    A window of w leaves a token min(w, itself and the past), causal; full, every token meets all
    new ones and the w - 1 that a rolling cache holds.

    Chapter: compute
    """
    s, c = whole("tokens", tokens), whole("past", past, least=0)
    if window is not None:
        instance("window", window, Window)
    if flag("causal", causal):
        return _seen_before(c + s, window) - _seen_before(c, window)
    if window:
        c = c % window.width if window.chunked else min(c, window.width - 1)
    return s * (c + s)


def _seen_before(n: int, window: Window | None) -> int:
    """Pairs of the first n tokens of a sequence, each with itself and the past it may see."""
    w = min(window.width, n) if window else n
    if window and window.chunked and n:
        chunks, rest = divmod(n, w)
        return chunks * w * (w + 1) // 2 + rest * (rest + 1) // 2
    return w * (w + 1) // 2 + (n - w) * w


def all_pairs(model: Model, s: int, c: int, causal: bool) -> int:
    """Query-key pairs of one sequence and one head, over all layers."""
    windowed = model.windowed_layers
    wide = (model.layers - windowed) * attention_pairs(tokens=s, past=c, causal=causal)
    if not windowed:
        return wide
    return wide + windowed * attention_pairs(tokens=s, past=c, causal=causal, window=model.window)


def _default_tokens(model: Model, tokens: int | None) -> int:
    """Tokens of a sequence: the model's context unless said."""
    return model.context if tokens is None else whole("tokens", tokens)


def forward(
    model: str | Model,
    *,
    sequences: int = 1,
    tokens: int | None = None,
    past: int = 0,
    causal: bool = False,
) -> Parts:
    """FLOP of one forward pass over B sequences of s tokens, by part.

    GPT-2: B (24 L s h^2 + 4 L s^2 h + 2 s h V) with full attention (Narayanan et al.
    2021, appendix).
    tokens: the model's context if not given; past: tokens in the KV cache; causal:
    count only the pairs a mask keeps, of a sliding window too.

    Of any other: 2 FLOP for each weight and each number of a key and of a value that a
    token meets.

    Chapter: compute (eq-forward, eq-general)
    """
    model, B = find_model(model), whole("sequences", sequences)
    s, a = _default_tokens(model, tokens), model.heads
    c = whole("past", past, least=0)
    seen = B * all_pairs(model, model.reach(s, c), c, causal)
    scored, valued = head_dims(model)
    matmuls = matrices(model)

    def weights(group: str) -> Part:
        found = {
            m.name: 2 * B * s * m.layers * m.used * m.inputs * m.outputs
            for m in matmuls
            if m.group == group
        }
        return Parts(group, "FLOP", found) if len(found) > 1 else found[group]

    parts: dict[str, Part] = {
        "embedding": 0,
        "attention projections": weights("attention"),
        "attention scores": 2 * a * scored * seen,
        "attention values": 2 * a * valued * seen,
    }
    elsewhere = [m.group for m in matmuls if m.group not in ("attention", "head")]
    for group in dict.fromkeys(elsewhere):
        parts[group] = weights(group)
    parts["vocabulary"] = weights("head")
    return Parts(f"forward of {model.title}", "FLOP", parts)


def _times(part: Part, factor: int) -> Part:
    return part.scaled(factor) if isinstance(part, Parts) else part * factor


def backward(
    model: str | Model,
    *,
    sequences: int = 1,
    tokens: int | None = None,
    causal: bool = False,
    attention_backward: float = 2,
    frozen: bool = False,
) -> Parts:
    """FLOP of one backward pass: two matmuls for each of the forward's, one for each of its two
    factors' gradients.

    attention_backward: 2, or 2.5 where the scores are computed again inside (FlashAttention, Dao et
    al. 2022, algorithm 4: five matmuls against the forward's two).  frozen: no weight gradients,
    so one matmul instead of two.

    Chapter: compute (eq-backward)
    """
    one_of("attention_backward", attention_backward, (2, 2.5))
    flag("frozen", frozen)
    once = forward(model, sequences=sequences, tokens=tokens, causal=causal)
    special = {"attention scores": 3 if attention_backward == 2.5 else 2, "attention values": 2}
    parts = {name: _times(once[name], special.get(name, 1 if frozen else 2)) for name in once}
    return Parts(once.title.replace("forward", "backward"), "FLOP", parts)


def recomputation(
    model: str | Model,
    *,
    recompute: str,
    sequences: int = 1,
    tokens: int | None = None,
    causal: bool = False,
    convention: str = "counted",
    early_stop: bool = False,
    last_matmul: bool | None = None,
    attention_backward: float = 2,
) -> Parts:
    """FLOP a backward pass adds because activations were not kept.

    none: 0.  full: the layers' forward again, not the vocabulary (Narayanan et al. 2021, equation
    3).
    selective, convention "counted": the two attention matmuls once more, 4 B L s^2 h;
    "korthikanti": 12 B L s^2 h, what equation 8 of Korthikanti et al. 2022 charges over equation 7
    (three times as much).
    early_stop: torch's checkpoint with use_reentrant=False stops at the last tensor that backward
    needs (the other variant, torch 2.13's default, runs to the end), and no matmul whose result
    nobody saves is run: selective without the matmul with the values, full without the MLP's
    last.  A fused kernel (attention_backward 2.5) saves its result and runs whole.
    last_matmul: whether full runs the MLP's last all the same, as something behind it saves its
    result: dropout, or a norm.  Unless said, where the model has dropout or four norms a layer.

    Chapter: compute
    """
    one_of("recompute", recompute, RECOMPUTE)
    one_of("convention", convention, ("counted", "korthikanti"))
    one_of("attention_backward", attention_backward, (2, 2.5))
    model = find_model(model)
    once = forward(model, sequences=sequences, tokens=tokens, causal=causal)
    again = {
        "none": (),
        "selective": ("attention scores", "attention values"),
        "full": [name for name in once if name not in ("embedding", "vocabulary")],
    }[recompute]
    factor = 3 if (recompute, convention) == ("selective", "korthikanti") else 1
    parts = {name: _times(once[name], factor) for name in again}
    if flag("early_stop", early_stop):
        parts = _stopped(model, parts, recompute, attention_backward == 2.5, last_matmul)
    return Parts(once.title.replace("forward", "recomputation"), "FLOP", parts)


def _stopped(
    model: Model, parts: dict[str, Part], recompute: str, fused: bool, last: bool | None
) -> dict[str, Part]:
    """What is left of a recomputation that stops early; experts' results are saved, to be
    weighted, so theirs run whole, and shared experts' where a gate scales them.
    """
    if recompute == "selective" and not fused:
        return {name: part for name, part in parts.items() if name != "attention values"}
    saved = model.dropout or model.block_norms > 2 if last is None else flag("last_matmul", last)
    if recompute != "full" or saved:
        return parts
    gated = model.experts is not None and model.experts.shared_gate
    ends = ("mlp",) if gated else ("mlp", "shared experts")
    return parts | {name: _without_last(parts[name]) for name in ends if name in parts}


def _without_last(part: Part) -> Part:
    """An MLP's matmuls but its last."""
    assert isinstance(part, Parts)
    kept = {name: one for name, one in part.items() if name != "down"}
    return Parts(part.title, "FLOP", kept)


def training(
    model: str | Model,
    *,
    sequences: int = 1,
    tokens: int | None = None,
    causal: bool = False,
    attention_backward: float = 2,
    frozen: bool = False,
    recompute: str = "none",
    convention: str = "counted",
    early_stop: bool = False,
    last_matmul: bool | None = None,
) -> Parts:
    """FLOP of one training step: forward, backward and what is computed again.

    The defaults give model FLOP (for MFU); attention_backward, recompute and early_stop add what
    the hardware does besides (HFU).

    Chapter: compute (eq-train)
    """
    shape: dict[str, Any] = {"sequences": sequences, "tokens": tokens, "causal": causal}
    name = find_model(model).title
    return Parts(
        f"training step of {name}",
        "FLOP",
        {
            "forward": forward(model, **shape),
            "backward": backward(
                model, **shape, attention_backward=attention_backward, frozen=frozen
            ),
            "recomputation": recomputation(
                model,
                **shape,
                recompute=recompute,
                convention=convention,
                early_stop=early_stop,
                last_matmul=last_matmul,
                attention_backward=attention_backward,
            ),
        },
    )


def run(
    model: str | Model,
    *,
    total_tokens: float,
    tokens: int | None = None,
    causal: bool = False,
    attention_backward: float = 2,
    recompute: str = "none",
    convention: str = "counted",
) -> Parts:
    """FLOP of a whole training run over D tokens, in sequences of s: D / s training steps of one
    sequence.

    Chapter: compute
    """
    D, s = positive("total_tokens", total_tokens), _default_tokens(find_model(model), tokens)
    once = training(
        model,
        tokens=s,
        causal=causal,
        attention_backward=attention_backward,
        recompute=recompute,
        convention=convention,
    )
    return once.scaled(D / s, once.title.replace("step", "run"))


def per_token(
    model: str | Model,
    *,
    tokens: int | None = None,
    causal: bool = False,
    attention_backward: float = 2,
    recompute: str = "none",
    convention: str = "counted",
) -> float:
    """FLOP of training on one token, forward and backward: what 6N approximates.

    Chapter: compute
    """
    return run(
        model,
        total_tokens=1,
        tokens=tokens,
        causal=causal,
        attention_backward=attention_backward,
        recompute=recompute,
        convention=convention,
    ).total


def six_nd(*, parameters: float, tokens: float, multiplier: float = 6) -> float:
    """C = 6 P D: two FLOP a weight and token forward, four backward (Kaplan et al. 2020, section
    2.1).

    multiplier: 2 forward only, 6 training, 8 with full recomputation, 3 an encoder-decoder whose
    tokens meet half the weights (Brown et al. 2020, appendix D).

    Chapter: compute (eq-6pd)
    """
    P, D = positive("parameters", parameters), positive("tokens", tokens)
    return positive("multiplier", multiplier) * P * D
