"""What several types have alike: sizes, biases, windows, experts, and LLaMA's block."""

from collections.abc import Callable, Iterable
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.from_config.asked import NAMES, Asked, Fields
from mathlib.specs import Experts, Window


def shape(c: Asked, *, tied: bool, context: int = 2048) -> Fields:
    """What every type says in its own words."""
    fields = {name: c.size(name, context if name == "context" else 0) for name in NAMES}
    return fields | {"tied": c.get("tie_word_embeddings", tied)}


def always(index: int) -> bool:
    """Every layer."""
    return True


def never(index: int) -> bool:
    """No layer."""
    return False


def all_but_every(n: int) -> Callable[[int], bool]:
    """Every layer but the n-th, the 2n-th and so on."""
    return lambda index: (index + 1) % n > 0


def biases(attention: Any, mlp: Any = False, output: Any = None) -> Fields:
    """Which projections have one; attention's output as its inputs unless said."""
    output = attention if output is None else output
    return {"qkv_bias": bool(attention), "output_bias": bool(output), "mlp_bias": bool(mlp)}


def window_of(layers: int, width: int | None, windowed: Iterable[bool], chunked: bool) -> Fields:
    """The Window that says of every layer whether it is windowed; a pattern that none says is
    refused.
    """
    wanted = list(windowed)
    if not width or not any(wanted):
        return {}
    every = wanted.index(False) + 1 if False in wanted else 0
    for window in (
        Window(width, full_every=every, chunked=chunked),
        Window(width, full_first=wanted.index(True), chunked=chunked),
    ):
        if [window.at(i) for i in range(layers)] == wanted:
            return {"window": window}
    raise InputError(
        "config: layer_types is not covered; expected every n-th layer, or the first ones, to see "
        "the whole sequence"
    )


def sliding(c: Asked, fields: Fields, windowed: Callable[[int], bool], width: Any) -> Fields:
    """The window of types whose config lists `layer_types`, or leaves them to a rule of the type's
    own.
    """
    kinds, layers = c.get("layer_types"), fields["layers"]
    words = {"full_attention": False, "sliding_attention": True, "chunked_attention": True}
    if kinds is None:
        rule = [windowed(i) for i in range(layers)]
    else:
        rule = [words[one_of("config: layer_types", kind, words)] for kind in kinds]
    chunked = kinds is not None and "chunked_attention" in kinds
    return fields | window_of(layers, width, rule, chunked)


def experts(layers: int, has: Callable[[int], bool], **fields: Any) -> Fields:
    """The Experts that say of every layer whether it has any."""
    wanted = [has(i) for i in range(layers)]
    if True not in wanted:
        return {}
    first = wanted.index(True)
    step = wanted.index(True, first + 1) - first if wanted.count(True) > 1 else first + 1
    for dense, every in ((first, 1), (0, step), (first, step)):
        found = Experts(**fields, dense_layers=dense, every=every)
        if [found.at(i) for i in range(layers)] == wanted:
            return {"experts": found}
    raise InputError(
        "config: where experts are is not covered; expected them in every n-th layer behind the "
        "first dense ones"
    )


def rotary_block(
    c: Asked, *, tied: bool = False, kv_heads: int = 0, head_dim: int = 0, norm: str = "rmsnorm"
) -> Fields:
    """Rotary positions and a gated MLP, no bias."""
    return shape(c, tied=tied) | {
        "kv_heads": c.get("num_key_value_heads", kv_heads) or 0,
        "head_dim": c.get("head_dim", head_dim) or 0,
        "ffn_width": c.get("intermediate_size"),
        "gated": True,
        "positions": "rotary",
        "norm": norm,
        **biases(False),
    }


def llama_block(c: Asked, **options: Any) -> Fields:
    """The same, with biases where the config says so."""
    fields = rotary_block(c, **options)
    return fields | biases(c.get("attention_bias", False), c.get("mlp_bias", False))
