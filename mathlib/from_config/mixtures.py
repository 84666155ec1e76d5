"""Types with experts; all have rotary positions."""

from collections.abc import Callable

from mathlib.checks import InputError, one_of
from mathlib.from_config.asked import Asked, Fields, reads
from mathlib.from_config.pieces import (
    all_but_every,
    always,
    biases,
    experts,
    llama_block,
    rotary_block,
    sliding,
    window_of,
)
from mathlib.from_config.rotary import olmo2, qwen_window
from mathlib.specs import Latent


@reads("mixtral")
def mixtral(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8)
    fields |= experts(
        fields["layers"],
        always,
        routed=c.get("num_local_experts", 8),
        active=c.get("num_experts_per_tok", 2),
        width=fields["ffn_width"],
    )
    return sliding(c, fields, always, c.get("sliding_window"))


def sparse_layers(c: Asked) -> Callable[[int], bool]:
    """Qwen's rule for the layers with experts."""
    step, dense = c.get("decoder_sparse_step", 1), c.get("mlp_only_layers") or []
    return lambda i: i not in dense and (i + 1) % step == 0


@reads("qwen2_moe")
def qwen2_moe(c: Asked) -> Fields:
    first, width = c.get("max_window_layers", 28), c.get("moe_intermediate_size", 1408)
    shared = c.get("shared_expert_intermediate_size", 5632)
    if shared % width:
        raise InputError(
            f"config: shared_expert_intermediate_size = {shared}: expected a multiple of "
            f"moe_intermediate_size = {width}"
        )
    fields = rotary_block(c, kv_heads=16) | biases(c.get("qkv_bias", True), output=False)
    fields |= experts(
        fields["layers"],
        sparse_layers(c),
        routed=c.get("num_experts", 60),
        active=c.get("num_experts_per_tok", 4),
        width=width,
        shared=shared // width,
        shared_gate=True,
    )
    return qwen_window(c, fields, lambda i: (i + 1) % 2 == 1 and i < first)


@reads("qwen3_moe")
def qwen3_moe(c: Asked) -> Fields:
    fields = llama_block(c, kv_heads=4) | {"query_key_norm": "head"}
    fields |= experts(
        fields["layers"],
        sparse_layers(c),
        routed=c.get("num_experts", None) or c.get("num_local_experts", 128),
        active=c.get("num_experts_per_tok", 8),
        width=c.get("moe_intermediate_size", 768),
    )
    c.without_effect("max_window_layers")
    return qwen_window(c, fields, always)


@reads("olmoe")
def olmoe(c: Asked) -> Fields:
    fields = olmo2(c)
    return fields | experts(
        fields["layers"],
        always,
        routed=c.get("num_experts", 64),
        active=c.get("num_experts_per_tok", 8),
        width=fields["ffn_width"],
    )


@reads("gpt_oss")
def gpt_oss(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8, head_dim=64)
    fields |= biases(c.get("attention_bias", True), mlp=True) | {"attention_sinks": True}
    c.without_effect("experts_per_token", "initial_context_length")  # say again what others say
    fields |= experts(
        fields["layers"],
        always,
        routed=c.get("num_local_experts", 128),
        active=c.get("num_experts_per_tok", 4) or c.get("experts_per_token"),
        width=fields["ffn_width"],
        router_bias=True,
    )
    return sliding(c, fields, all_but_every(2), c.get("sliding_window", 128))


@reads("llama4_text")
def llama4(c: Asked) -> Fields:
    fields = llama_block(c, kv_heads=8, head_dim=128)
    c.without_effect("use_qk_norm")  # divides by the length and has no weights
    step, sparse = c.get("interleave_moe_layer_step", 1), c.get("moe_layers")
    fields |= experts(
        fields["layers"],
        lambda i: (i + 1) % step == 0 if sparse is None else i in sparse,
        routed=c.get("num_local_experts", 16),
        active=c.get("num_experts_per_tok", 1),
        width=fields["ffn_width"],
        shared=1,
    )
    fields["ffn_width"] = c.get("intermediate_size_mlp", 16384)  # of the layers without experts
    width = c.get("attention_chunk_size", 8192)
    return fields | window_of(fields["layers"], width, llama4_chunked(c, fields["layers"]), True)


def llama4_chunked(c: Asked, layers: int) -> list[bool]:
    """Which layers see no more than their chunk: those with rotary positions, unless said."""
    every = c.get("no_rope_layer_interval", 4)
    rotary = c.get("no_rope_layers") or [(i + 1) % every for i in range(layers)]
    kinds = c.get("layer_types") or ["chunked_attention" if r else "full_attention" for r in rotary]
    known = ("chunked_attention", "full_attention")
    return [one_of("config: layer_types", kind, known) == known[0] for kind in kinds]


def deepseek(c: Asked, *, v3: bool) -> Fields:
    """Latent attention, and many narrow experts behind the first dense layers."""
    latent = Latent(
        kv_rank=c.get("kv_lora_rank", 512),
        rope_dim=c.get("qk_rope_head_dim", 64),
        nope_dim=c.get("qk_nope_head_dim", 128),
        value_dim=c.get("v_head_dim", 128),
        query_rank=c.get("q_lora_rank", 1536) or 0,
    )
    c.must("mlp_bias", False)  # transformers gives it to shared experts and not to routed ones
    c.must("moe_layer_freq", 1)
    c.without_effect("qk_head_dim", "num_nextn_predict_layers", "num_mtp_layers")
    fields = llama_block(c) | {"latent": latent, "kv_heads": 0, "head_dim": latent.value_dim}
    dense = c.get("first_k_dense_replace", 3 if v3 else 0)
    return fields | experts(
        fields["layers"],
        lambda i: i >= dense,
        routed=c.get("n_routed_experts", 256 if v3 else 64),
        active=c.get("num_experts_per_tok", 8 if v3 else None),
        width=c.get("moe_intermediate_size", 2048 if v3 else 1407),
        shared=c.get("n_shared_experts", 1 if v3 else 2),
        router_bias=v3,
    )


@reads("deepseek_v2")
def deepseek_v2(c: Asked) -> Fields:
    return deepseek(c, v3=False)


@reads("deepseek_v3")
def deepseek_v3(c: Asked) -> Fields:
    return deepseek(c, v3=True)
