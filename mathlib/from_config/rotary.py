"""Types like LLaMA, without experts: rotary positions, most with a gated MLP and without biases."""

from collections.abc import Callable
from typing import Any

from mathlib.from_config.asked import Asked, Fields, reads
from mathlib.from_config.pieces import (
    all_but_every,
    always,
    biases,
    llama_block,
    never,
    rotary_block,
    sliding,
)


@reads("llama", "granite")
def llama(c: Asked) -> Fields:
    return llama_block(c)


@reads("smollm3")
def smollm3(c: Asked) -> Fields:
    c.must("use_sliding_window", False)
    fields = llama_block(c, tied=True, kv_heads=4)
    c.without_effect("no_rope_layers", "no_rope_layer_interval", "sliding_window")
    return sliding(c, fields, never, None)


@reads("mistral")
def mistral(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8)
    return sliding(c, fields, always, c.get("sliding_window", 4096))


def qwen_window(c: Asked, fields: Fields, windowed: Callable[[int], bool]) -> Fields:
    width = c.get("sliding_window", 4096)
    return sliding(c, fields, windowed, width if c.get("use_sliding_window", False) else None)


@reads("qwen2")
def qwen2(c: Asked) -> Fields:
    first = c.get("max_window_layers", 28)
    fields = rotary_block(c, kv_heads=32) | biases(True, output=False)
    return qwen_window(c, fields, lambda i: i >= first)


@reads("qwen3")
def qwen3(c: Asked) -> Fields:
    first = c.get("max_window_layers", 28)
    fields = llama_block(c, kv_heads=32, head_dim=128) | {"query_key_norm": "head"}
    return qwen_window(c, fields, lambda i: i >= first)


def gemma_block(c: Asked, **options: Any) -> Fields:
    c.must("use_bidirectional_attention", None, False)
    return llama_block(c, tied=True, head_dim=256, **options)


@reads("gemma")
def gemma(c: Asked) -> Fields:
    return gemma_block(c, kv_heads=16)


@reads("gemma2")
def gemma2(c: Asked) -> Fields:
    fields = gemma_block(c, kv_heads=4) | {"block_norms": 4}
    return sliding(c, fields, all_but_every(2), c.get("sliding_window", 4096))


@reads("gemma3_text")
def gemma3(c: Asked) -> Fields:
    fields = gemma_block(c, kv_heads=4) | {"block_norms": 4, "query_key_norm": "head"}
    every = c.get("sliding_window_pattern", None) or c.get("_sliding_window_pattern", 6)
    return sliding(c, fields, all_but_every(every), c.get("sliding_window", 4096))


@reads("phi3")
def phi3(c: Asked) -> Fields:
    return sliding(c, rotary_block(c), always, c.get("sliding_window"))


@reads("olmo")
def olmo(c: Asked) -> Fields:
    return llama_block(c, norm="none")


@reads("olmo2")
def olmo2(c: Asked) -> Fields:
    return llama_block(c) | {"query_key_norm": "full"}


@reads("olmo3")
def olmo3(c: Asked) -> Fields:
    return sliding(c, olmo2(c), all_but_every(4), c.get("sliding_window", 4096))


@reads("stablelm")
def stablelm(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=32, norm="layernorm")
    fields |= biases(c.get("use_qkv_bias", False), output=False)
    fields["query_key_norm"] = "heads" if c.get("qk_layernorm", False) else ""
    parallel = bool(c.get("use_parallel_residual", False))
    return fields | {"parallel_block": parallel, "block_norms": 1 if parallel else 2}


@reads("cohere")
def cohere(c: Asked) -> Fields:
    fields = llama_block(c, tied=True, norm="layernorm-no-bias")
    fields["query_key_norm"] = "heads" if c.get("use_qk_norm", False) else ""
    return fields | {"parallel_block": True, "block_norms": 1}


@reads("cohere2")
def cohere2(c: Asked) -> Fields:
    every, width = c.get("sliding_window_pattern", 4), c.get("sliding_window", 4096)
    return sliding(c, cohere(c), all_but_every(every), width)


@reads("phi")
def phi(c: Asked) -> Fields:
    norm = {"query_key_norm": "head" if c.get("qk_layernorm", False) else ""}
    fields = rotary_block(c, norm="layernorm") | biases(True, mlp=True) | norm
    return fields | {
        "query_key_norm_bias": True,
        "gated": False,
        "parallel_block": True,
        "block_norms": 1,
        "head_bias": True,
    }


@reads("persimmon")
def persimmon(c: Asked) -> Fields:
    norm = {"query_key_norm": "head" if c.get("qk_layernorm", True) else ""}
    fields = rotary_block(c, norm="layernorm") | biases(True, mlp=True) | norm
    return fields | {"query_key_norm_bias": True, "gated": False}


@reads("starcoder2")
def starcoder2(c: Asked) -> Fields:
    bias = c.get("use_bias", True)
    fields = rotary_block(c, tied=True, kv_heads=2, norm="layernorm") | biases(bias, mlp=bias)
    return sliding(c, fields | {"gated": False}, always, c.get("sliding_window"))
