"""Bytes of inference: the cache of keys and values.

L layers · b micro_batch · s tokens · k kv_heads · d head_dim · t tensor · e bytes an element
"""

from mathlib.checks import InputError, ceil_div, divides, flag, positive, whole
from mathlib.parts import Parts
from mathlib.specs import Model, find_model


def kv_cache(
    model: str | Model,
    *,
    tokens: int = 1,
    sequences: int = 1,
    bytes_per_element: float = 2,
    tensor: int = 1,
    rolling: bool = True,
) -> Parts:
    """Bytes of the cache on one device: 2 L b s k d e, keys and values; latent attention keeps r_kv
    + d_rope instead.

    A device holds at least one head: more devices than kv_heads keep copies. A latent is kept whole
    by each. Layers with a sliding window keep its tokens alone (the rolling buffer of Mistral 7B,
    section 2); `rolling` False keeps all, as programs without such a buffer do.

    Chapter: inference
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
