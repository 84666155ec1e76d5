"""Bytes of inference: the cache of keys and values.

L layers · b micro_batch · s tokens · k kv_heads · d head_dim · e bytes an element
"""

from mathlib.checks import positive, whole
from mathlib.parts import Parts
from mathlib.specs import Model, find_model


def kv_cache(
    model: str | Model,
    *,
    tokens: int = 1,
    sequences: int = 1,
    bytes_per_element: float = 2,
    tensor: int = 1,
) -> Parts:
    """Bytes of the cache on one device: 2 L b s k d e, keys and values; latent attention keeps r_kv
    + d_rope instead.

    A device holds at least one head: more devices than kv_heads keep copies. A latent is kept whole
    by each.
    """
    model, t = find_model(model), whole("tensor", tensor)
    cells = model.layers * whole("tokens", tokens) * whole("sequences", sequences)
    width = positive("bytes_per_element", bytes_per_element)
    if model.latent:
        parts = {
            "latent": width * cells * model.latent.kv_rank,
            "rotary key": width * cells * model.latent.rope_dim,
        }
    else:
        one = width * cells * model.head_dim * -(-model.kv_heads // t)
        parts = {"keys": one, "values": one}
    return Parts(f"KV cache of {model.name}", "byte", parts)
