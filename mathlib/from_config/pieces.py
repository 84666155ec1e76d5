"""What several types have alike: sizes, biases, windows, experts, and LLaMA's block."""

from collections.abc import Callable, Iterable
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.from_config.asked import NAMES, Asked, Fields
from mathlib.specs import Experts, Window

NOT_COVERED = {  # kinds of layers that no formula here is about
    "linear_attention": "linear attention or a state space",
    "mamba": "a state space",
    "mamba2": "a state space",
    "conv": "a convolution",
    "indexed_attention": "attention to what an indexer picks",
    "hybrid": "a state space beside attention",
}


def shape(c: Asked, *, tied: bool, context: int = 2048) -> Fields:
    """What every type says in its own words."""
    fields: Fields = {name: c.size(name, context if name == "context" else None) for name in NAMES}
    return fields | {"tied": c.switch("tie_word_embeddings", tied)}


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
        "layer_types is not covered; expected every n-th layer, or the first ones, to see "
        "the whole sequence"
    )


def layer_kinds(c: Asked, layers: int, known: Iterable[str], also: str = "") -> list[str] | None:
    """What the config's `layer_types` calls each layer; None where it leaves that open."""
    kinds = c.many("layer_types", also)
    if kinds is None:
        return None
    kinds = ["full_attention" if kind == "attention" else kind for kind in kinds]
    for kind in kinds:
        if isinstance(kind, str) and kind in NOT_COVERED:
            raise InputError(f"layer_types has {kind!r}: {NOT_COVERED[kind]} is not covered")
        one_of("layer_types", kind, known)
    if len(kinds) != layers:
        raise InputError(f"layer_types names {len(kinds)} layers: expected {layers}, one for each")
    return kinds


def sliding(c: Asked, fields: Fields, windowed: Callable[[int], bool], width: Any) -> Fields:
    """The window of types whose config lists `layer_types`, or leaves them to a rule of the type's
    own.
    """
    words = {"full_attention": False, "sliding_attention": True, "chunked_attention": True}
    layers = fields["layers"]
    kinds = layer_kinds(c, layers, words)
    rule = [words[kind] for kind in kinds] if kinds else [windowed(i) for i in range(layers)]
    return fields | window_of(layers, width, rule, "chunked_attention" in (kinds or ()))


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
        "where experts are is not covered; expected them in every n-th layer behind the "
        "first dense ones"
    )


def rotary_block(
    c: Asked,
    *,
    tied: bool = False,
    kv_heads: int | None = 0,
    head_dim: int | None = 0,
    norm: str = "rmsnorm",
    or_null: bool = False,
) -> Fields:
    """Rotary positions and a gated MLP, no bias; None: the type has no such key. `or_null`: the
    file may leave key heads open though the type has a number of them.
    """
    keys, wide = kv_heads or 0, head_dim or 0
    null = None if keys and not or_null else 0
    return shape(c, tied=tied) | {
        "kv_heads": keys if kv_heads is None else c.whole("num_key_value_heads", keys, null=null),
        "head_dim": wide
        if head_dim is None
        else c.whole("head_dim", wide, null=None if wide else 0),
        "ffn_width": c.whole("intermediate_size"),
        "gated": True,
        "positions": "rotary",
        "norm": norm,
        **biases(False),
    }


def llama_block(c: Asked, **options: Any) -> Fields:
    """The same, with biases of attention where the config says so."""
    return rotary_block(c, **options) | biases(c.switch("attention_bias", False))
