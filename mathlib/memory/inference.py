"""Bytes of inference: the cache of keys and values, and what stands in its place.

L layers · h width · B sequences · s tokens · k kv_heads · d head_dim · t tensor
e bytes an element
"""

import math
from collections.abc import Iterable
from typing import Any

from mathlib.checks import (
    InputError,
    ceil_div,
    divides,
    flag,
    listed,
    positive,
    whole,
)
from mathlib.parts import Parts
from mathlib.specs import Model, find_model

MOST = 10**12  # tokens; whoever has room for as many has room for all


def kv_cache(
    model: str | Model,
    *,
    tokens: int = 1,
    sequences: int = 1,
    bytes_per_element: float = 2,
    tensor: int = 1,
    rolling: bool = True,
) -> Parts:
    """Bytes of the cache on one device: 2 L B s k d e, keys and values; latent attention keeps r_kv
    + d_rope instead.

    A device holds at least one head: more devices than kv_heads keep copies. A latent is kept whole
    by each. Layers with a sliding window keep its tokens alone (the rolling buffer of Mistral 7B,
    section 2); `rolling` False keeps all, as programs without such a buffer do.

    Chapter: inference (eq-kv-cache)
    """
    model, s = find_model(model), whole("tokens", tokens)
    t = divides("tensor", tensor, "heads", model.heads)
    few = model.windowed_layers if flag("rolling", rolling) else 0
    kept = (model.layers - few) * model.reach(s)
    if model.window:
        kept += few * min(s, model.window.width)
    cells = kept * whole("sequences", sequences)
    width = positive("bytes_per_element", bytes_per_element)
    if not model.latent and model.kv_heads % t and t % model.kv_heads:
        raise InputError(
            f"tensor = {t}: expected a divisor or a multiple of kv_heads = {model.kv_heads}"
        )
    if model.latent:
        parts = {
            "latent": width * cells * model.latent.kv_rank,
            "rotary key": width * cells * model.latent.rope_dim,
        }
    else:
        one = width * cells * model.head_dim * ceil_div(model.kv_heads, t)
        parts = {"keys": one, "values": one}
    return Parts(f"KV cache of {model.title}", "byte", parts)


def recurrent_state(
    model: str | Model, *, sequences: int = 1, bytes_per_element: float = 4
) -> Parts:
    """Bytes that a recurrent model of these sizes carries: 5 L B h e, at any length (RWKV-4, Peng
    et al. 2023, appendix: two tokens before, two sums and an exponent in each layer).

    Chapter: inference
    """
    model, B = find_model(model), whole("sequences", sequences)
    L, h, e = model.layers, model.width, positive("bytes_per_element", bytes_per_element)
    one = e * L * B * h
    return Parts(
        "State of a recurrent network", "byte", {"tokens before": 2 * one, "sums": 3 * one}
    )


def tokens_within(model: str | Model, *, size: float, **options: Any) -> float:
    """Most tokens of each sequence whose cache takes at most `size` bytes, infinite
    where a window keeps it below for ever. All else goes to `kv_cache`.

    The weights' own bytes for `size` give the crossover, a device's free ones the
    longest context.

    Chapter: inference (eq-cache-crossover, eq-longest)
    """
    model, size = find_model(model), positive("size", size)
    if model.positions == "learned":
        model = model.but(position_rows=MOST)

    def fits(tokens: int) -> bool:
        return kv_cache(model, tokens=tokens, **options).total <= size

    low, high = 0, MOST
    if fits(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def paged(*, tokens: Iterable[int], block: int) -> Parts:
    """Rows of a store in blocks, for sequences of these tokens: those used, and those empty behind
    the end of each, less than a block (Kwon et al. 2023, section 4.3).

    Chapter: inference (eq-paged)
    """
    size, lengths = whole("block", block), [whole("tokens", s) for s in listed("tokens", tokens)]
    used, held = sum(lengths), sum(size * ceil_div(s, size) for s in lengths)
    return Parts("Rows of the cache", "token", {"used": used, "empty": held - used})
