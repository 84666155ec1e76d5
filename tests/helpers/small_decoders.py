"""Today's decoders in miniature, one of each kind."""

from dataclasses import replace

from mathlib import specs


def tiny(**changes):
    """A Llama in miniature, and what makes it another model."""
    shape = {"layers": 3, "width": 48, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn_width": 40}
    shape |= {"vocab": 97, "padded_vocab": 97, "context": 24, "attention": "standard"}
    return specs.find_model("llama3-8b").but(name="tiny", **shape | changes)


EXPERTS = specs.Experts(routed=6, active=2, width=24)
LATENT = specs.Latent(kv_rank=12, rope_dim=8, nope_dim=16, value_dim=12, query_rank=20)
KINDS = {
    "grouped": {},
    "normed": {"query_key_norm": "head", "qkv_bias": True},
    "windows": {"window": specs.Window(6, full_every=3), "block_norms": 4, "tied": True},
    "experts": {"experts": EXPERTS},
    "shared expert": {"experts": replace(EXPERTS, shared=2, dense_layers=1)},
    "latent": {"latent": LATENT, "kv_heads": 4},
    "latent, queries direct": {"latent": replace(LATENT, query_rank=0), "kv_heads": 4},
}
