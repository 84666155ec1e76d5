"""Types of before LLaMA: learned positions, distances in the scores, or the first rotary ones."""

from collections.abc import Mapping

from mathlib.from_config.asked import Asked, Fields, reads
from mathlib.from_config.pieces import biases, shape


@reads("gptj")
def gptj(c: Asked) -> Fields:
    return shape(c, tied=False) | {
        "ffn_width": c.whole("n_inner", 0, null=0),
        "positions": "rotary",
        "block_norms": 1,
        "parallel_block": True,
        "head_bias": True,
        **biases(False, mlp=True),
    }


@reads("gpt_neox")
def gpt_neox(c: Asked) -> Fields:
    return shape(c, tied=False) | {
        "ffn_width": c.whole("intermediate_size", 24576),
        "positions": "rotary",
        "parallel_block": c.switch("use_parallel_residual", True),
        **biases(c.switch("attention_bias", True), mlp=True),
    }


@reads("falcon")
def falcon(c: Asked) -> Fields:
    fields = shape(c, tied=True)
    new = c.switch("new_decoder_architecture", False, null=False)
    parallel = c.switch("parallel_attn", True, null=False)
    shared = 1 if c.switch("multi_query", True, null=False) else fields["heads"]
    keys = c.whole("num_kv_heads", fields["heads"], null=fields["heads"])
    norms = c.whole("num_ln_in_parallel_attn", 2 if new else 1, null=2 if new else 1)
    two = not parallel or norms == 2
    bias = c.switch("bias", False, null=False)
    return fields | {
        "kv_heads": keys if new else shared,
        "ffn_width": c.whole("ffn_hidden_size", 0, null=0),
        "positions": "alibi" if c.switch("alibi", False, null=False) else "rotary",
        "parallel_block": parallel,
        "block_norms": 2 if two else 1,
        **biases(bias, mlp=bias),
    }


@reads("gpt2")
def gpt2(c: Asked) -> Fields:
    return shape(c, tied=True, context=1024) | {"ffn_width": c.whole("n_inner", 0, null=0)}


@reads("gpt_bigcode")
def gpt_bigcode(c: Asked) -> Fields:
    one = c.switch("multi_query", True)
    c.without_effect("num_key_value_heads")
    return gpt2(c) | {"kv_heads": 1 if one else 0}


@reads("bloom")
def bloom(c: Asked) -> Fields:
    return shape(c, tied=True) | {"positions": "alibi", "embedding_norm": True}


@reads("opt")
def opt(c: Asked) -> Fields:
    fields, bias = shape(c, tied=True), c.switch("enable_bias", True)
    narrow = c.whole("word_embed_proj_dim", fields["width"], null=fields["width"])
    if narrow != fields["width"]:
        told = f"(hidden_size = {fields['width']}) is not covered"
        c.refuse("word_embed_proj_dim", f": an embedding narrower than the stream {told}")
    first = c.switch("do_layer_norm_before", True)
    removed = c.switch("_remove_final_layer_norm", False)
    return fields | {
        "ffn_width": c.whole("ffn_dim", 3072),
        "position_rows": fields["context"] + 2,
        "norm": "layernorm" if c.switch("layer_norm_elementwise_affine", True) else "none",
        "final_norm": first and not removed,
        **biases(bias, mlp=bias),
    }


@reads("mpt")
def mpt(c: Asked) -> Fields:
    given = c.get("attn_config") or {}
    if not isinstance(given, Mapping):
        c.refuse("attn_config", ": expected a dictionary")
        given = {}
    attention = Asked(given)
    attention.problems = c.problems
    for key, only in (("attn_type", "multihead_attention"), ("qk_ln", False), ("alibi", True)):
        attention.must(key, only)
    c.must("no_bias", True)
    c.must("expansion_ratio", 4)
    # where positions are ALiBi's
    c.without_effect("learned_pos_emb", "embedding_fraction", "norm_type")
    fields = shape(c, tied=True) | {"positions": "alibi", "norm": "layernorm-no-bias"}
    return fields | biases(False)
