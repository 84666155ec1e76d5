"""Types of before LLaMA: learned positions, distances in the scores, or the first rotary ones."""

from mathlib.checks import InputError
from mathlib.from_config.asked import Asked, Fields, reads
from mathlib.from_config.pieces import biases, shape


@reads("gptj")
def gptj(c: Asked) -> Fields:
    return shape(c, tied=False) | {
        "ffn_width": c.get("n_inner") or 0,
        "positions": "rotary",
        "block_norms": 1,
        "parallel_block": True,
        "head_bias": True,
        **biases(False, mlp=True),
    }


@reads("gpt_neox")
def gpt_neox(c: Asked) -> Fields:
    return shape(c, tied=False) | {
        "ffn_width": c.get("intermediate_size", 24576),
        "positions": "rotary",
        "parallel_block": bool(c.get("use_parallel_residual", True)),
        **biases(c.get("attention_bias", True), mlp=True),
    }


@reads("falcon")
def falcon(c: Asked) -> Fields:
    fields = shape(c, tied=True)
    new, parallel = c.get("new_decoder_architecture", False), c.get("parallel_attn", True)
    shared = 1 if c.get("multi_query", True) else fields["heads"]
    keys, norms = c.get("num_kv_heads") or fields["heads"], c.get("num_ln_in_parallel_attn")
    two = not parallel or norms == 2 or (norms is None and new)
    bias = c.get("bias", False)
    return fields | {
        "kv_heads": keys if new else shared,
        "ffn_width": c.get("ffn_hidden_size") or 0,
        "positions": "alibi" if c.get("alibi", False) else "rotary",
        "parallel_block": bool(parallel),
        "block_norms": 2 if two else 1,
        **biases(bias, mlp=bias),
    }


@reads("gpt2")
def gpt2(c: Asked) -> Fields:
    return shape(c, tied=True, context=1024) | {"ffn_width": c.get("n_inner") or 0}


@reads("gpt_bigcode")
def gpt_bigcode(c: Asked) -> Fields:
    one = c.get("multi_query", True)
    c.without_effect("num_key_value_heads")
    return gpt2(c) | {"kv_heads": 1 if one else 0}


@reads("bloom")
def bloom(c: Asked) -> Fields:
    return shape(c, tied=True) | {"positions": "alibi", "embedding_norm": True}


@reads("opt")
def opt(c: Asked) -> Fields:
    fields, bias = shape(c, tied=True), c.get("enable_bias", True)
    narrow = c.get("word_embed_proj_dim") or fields["width"]
    if narrow != fields["width"]:
        raise InputError(
            f"config: word_embed_proj_dim = {narrow}: an embedding narrower than the stream "
            f"(hidden_size = {fields['width']}) is not covered"
        )
    first, removed = c.get("do_layer_norm_before", True), c.get("_remove_final_layer_norm", False)
    return fields | {
        "ffn_width": c.get("ffn_dim", 3072),
        "position_rows": fields["context"] + 2,
        "norm": "layernorm" if c.get("layer_norm_elementwise_affine", True) else "none",
        "final_norm": bool(first and not removed),
        **biases(bias, mlp=bias),
    }


@reads("mpt")
def mpt(c: Asked) -> Fields:
    attention = Asked(c.get("attn_config") or {})
    for key, only in (("attn_type", "multihead_attention"), ("qk_ln", False), ("alibi", True)):
        attention.must(key, only)
    c.must("no_bias", True)
    c.must("expansion_ratio", 4)
    # where positions are ALiBi's
    c.without_effect("learned_pos_emb", "embedding_fraction", "norm_type")
    fields = shape(c, tied=True) | {"positions": "alibi", "norm": "layernorm-no-bias"}
    return fields | biases(False)
