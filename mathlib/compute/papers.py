"""Training FLOP as papers write them, each in the paper's own closed form or by its own rules.

B sequences · s tokens of one · L layers · h width · a heads · d head_dim · f ffn_width
V padded vocabulary · P parameters

Where a paper counts the same matmuls, its formula is `flops.training` of a plain GPT.
"""

from mathlib.checks import InputError, flag, one_of, positive, whole
from mathlib.compute import flops
from mathlib.parts import Parts
from mathlib.specs import Model, find_model

ATTENTION = ("full", "causal", "none")


def palm_per_token(
    *,
    parameters: float,
    layers: int,
    heads: int,
    head_dim: int,
    tokens: int,
    attention: str = "full",
    multiplier: float = 6,
) -> float:
    """6 P + 12 L a d s: training FLOP a token (Chowdhery et al. 2022, appendix B, as H, Q, T).

    attention: "full" counts all pairs, "causal" half of them, "none" gives 6 P.  multiplier: 8
    gives 8 P + 16 L a d s, what full recomputation makes of it.

    Chapter: compute
    """
    P, L, a = positive("parameters", parameters), whole("layers", layers), whole("heads", heads)
    d, s = whole("head_dim", head_dim), whole("tokens", tokens)
    factor = positive("multiplier", multiplier)
    share = {"full": 2, "causal": 1, "none": 0}[one_of("attention", attention, ATTENTION)]
    return factor * (P + share * L * a * d * s)


def _plain(layers: int, width: int, vocab: int, tokens: int) -> Model:
    """A GPT by its shape; heads change neither parameters nor FLOP."""
    return Model(
        name="GPT",
        layers=layers,
        width=width,
        heads=1,
        vocab=vocab,
        context=whole("tokens", tokens),
    )


def narayanan(*, sequences: int, tokens: int, layers: int, width: int, vocab: int) -> int:
    """96 B s L h^2 (1 + s/(6h) + V/(16 L h)): a step with full recomputation (Narayanan et al.
    2021, equation 3).

    Chapter: compute
    """
    return int(
        flops.training(
            _plain(layers, width, vocab, tokens), sequences=sequences, recompute="full"
        ).total
    )


def korthikanti(
    *,
    sequences: int,
    tokens: int,
    layers: int,
    width: int,
    vocab: int,
    recompute: str = "none",
    convention: str = "korthikanti",
) -> int:
    """72 B L s h^2 (1 + s/(6h) + V/(12 h L)), a step that keeps everything (Korthikanti et al.
    2022, equation 7).

    Selective recomputation makes the s/(6h) an s/(3h) (equation 8).

    Chapter: compute
    """
    model = _plain(layers, width, vocab, tokens)
    return int(
        flops.training(model, sequences=sequences, recompute=recompute, convention=convention).total
    )


def chinchilla(
    model: str | Model,
    *,
    sequences: int = 1,
    tokens: int | None = None,
    embedding: bool = True,
    logits: bool = True,
    softmax: bool = True,
) -> Parts:
    """Training FLOP as Hoffmann et al. 2022 count them (appendix F): three times a forward that
    multiplies the one-hot embedding out (2 s V h) and charges softmax 3 a s^2, for a plain
    transformer.

    As printed, it does not give their Table A4.  Without embedding and logits, over 6 P D with P
    counted as for Gopher (relative positions), it gives all six rows.

    Chapter: compute
    """
    model, B = find_model(model), whole("sequences", sequences)
    s = model.context if tokens is None else whole("tokens", tokens)
    L, h, a, f, V = model.layers, model.width, model.heads, model.ffn_width, model.vocab
    key = a * model.head_dim
    _refuse_unless_plain(model)
    for name, wanted in (("embedding", embedding), ("logits", logits), ("softmax", softmax)):
        flag(name, wanted)
    once = Parts(
        f"training step of {model.title}, as Chinchilla counts",
        "FLOP",
        {
            "embedding": 2 * s * V * h if embedding else 0,
            "attention projections": L * (2 * 3 * s * h * key + 2 * s * key * h),
            "attention scores": L * 2 * s * s * key,
            "softmax": L * 3 * a * s * s if softmax else 0,
            "attention values": L * 2 * s * s * key,
            "mlp": L * 2 * s * (h * f + f * h),
            "vocabulary": 2 * s * h * V if logits else 0,
        },
    )
    return once.scaled(3 * B)


def _refuse_unless_plain(model: Model) -> None:
    parts = model.experts or model.latent or model.gated or model.window
    if parts or model.kv_heads != model.heads:
        raise InputError(
            f"model = {model.name!r}: expected a plain transformer (no experts, gate, window or "
            "shared key heads)"
        )
