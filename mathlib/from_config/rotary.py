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


def biased(c: Asked, **options: Any) -> Fields:
    return llama_block(c, **options) | {"mlp_bias": c.switch("mlp_bias", False)}


@reads("llama", "granite")
def llama(c: Asked) -> Fields:
    return biased(c)


@reads("smollm3")
def smollm3(c: Asked) -> Fields:
    c.must("use_sliding_window", False)
    fields = biased(c, tied=True, kv_heads=4, or_null=True)
    c.without_effect("no_rope_layers", "no_rope_layer_interval", "sliding_window")
    return sliding(c, fields, never, None)


@reads("mistral")
def mistral(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8)
    return sliding(c, fields, always, c.whole("sliding_window", 4096, null=0))


def qwen_window(c: Asked, fields: Fields, windowed: Callable[[int], bool]) -> Fields:
    used = c.switch("use_sliding_window", False)
    width = c.whole("sliding_window", 4096, least=1 if used else 0, null=0)
    return sliding(c, fields, windowed, width if used else 0)


@reads("qwen2")
def qwen2(c: Asked) -> Fields:
    first = c.whole("max_window_layers", 28, least=0)
    fields = rotary_block(c, kv_heads=32, or_null=True) | biases(True, output=False)
    return qwen_window(c, fields, lambda i: i >= first)


@reads("qwen3")
def qwen3(c: Asked) -> Fields:
    first = c.whole("max_window_layers", 28, least=0)
    fields = llama_block(c, kv_heads=32, head_dim=128, or_null=True) | {"query_key_norm": "head"}
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
    return sliding(c, fields, all_but_every(2), c.whole("sliding_window", 4096, null=0))


@reads("gemma3_text")
def gemma3(c: Asked) -> Fields:
    fields = gemma_block(c, kv_heads=4) | {"block_norms": 4, "query_key_norm": "head"}
    usual = c.whole("_sliding_window_pattern", 6)
    every = c.whole("sliding_window_pattern", usual, null=usual)
    return sliding(c, fields, all_but_every(every), c.whole("sliding_window", 4096, null=0))


@reads("phi3")
def phi3(c: Asked) -> Fields:
    return sliding(c, rotary_block(c), always, c.whole("sliding_window", 0, null=0))


@reads("olmo")
def olmo(c: Asked) -> Fields:
    return llama_block(c, norm="none")


@reads("olmo2")
def olmo2(c: Asked) -> Fields:
    return llama_block(c) | {"query_key_norm": "full"}


@reads("olmo3")
def olmo3(c: Asked) -> Fields:
    return sliding(c, olmo2(c), all_but_every(4), c.whole("sliding_window", 4096, null=0))


@reads("stablelm")
def stablelm(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=32, head_dim=None, norm="layernorm")
    fields |= biases(c.switch("use_qkv_bias", False), output=False)
    fields["query_key_norm"] = "heads" if c.switch("qk_layernorm", False) else ""
    parallel = c.switch("use_parallel_residual", False)
    return fields | {"parallel_block": parallel, "block_norms": 1 if parallel else 2}


def cohere_block(c: Asked) -> Fields:
    fields = llama_block(c, tied=True, norm="layernorm-no-bias")
    return fields | {"parallel_block": True, "block_norms": 1}


@reads("cohere")
def cohere(c: Asked) -> Fields:
    norm = "heads" if c.switch("use_qk_norm", False, null=False) else ""
    return cohere_block(c) | {"query_key_norm": norm}


@reads("cohere2")
def cohere2(c: Asked) -> Fields:
    every = c.whole("sliding_window_pattern", 4, null=4)
    width = c.whole("sliding_window", 4096, null=0)
    return sliding(c, cohere_block(c), all_but_every(every), width)


@reads("phi")
def phi(c: Asked) -> Fields:
    norm = {"query_key_norm": "head" if c.switch("qk_layernorm", False) else ""}
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
    norm = {"query_key_norm": "head" if c.switch("qk_layernorm", True) else ""}
    fields = rotary_block(c, kv_heads=None, head_dim=None, norm="layernorm")
    fields |= biases(True, mlp=True) | norm
    return fields | {"query_key_norm_bias": True, "gated": False}


@reads("starcoder2")
def starcoder2(c: Asked) -> Fields:
    bias = c.switch("use_bias", True)
    fields = rotary_block(c, tied=True, kv_heads=2, norm="layernorm") | biases(bias, mlp=bias)
    return sliding(c, fields | {"gated": False}, always, c.whole("sliding_window", 0, null=0))
