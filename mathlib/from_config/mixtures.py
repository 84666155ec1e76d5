"""Types with experts; all have rotary positions."""

from collections.abc import Callable

from mathlib.checks import InputError
from mathlib.from_config.asked import Asked, Fields, reads
from mathlib.from_config.pieces import (
    all_but_every,
    always,
    biases,
    experts,
    layer_kinds,
    llama_block,
    rotary_block,
    sliding,
    window_of,
)
from mathlib.from_config.rotary import qwen_window
from mathlib.specs import Latent


@reads("mixtral")
def mixtral(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8)
    fields |= experts(
        fields["layers"],
        always,
        routed=c.whole("num_local_experts", 8, also="num_experts"),
        active=c.whole("num_experts_per_tok", 2),
        width=fields["ffn_width"],
    )
    return sliding(c, fields, always, c.whole("sliding_window", 0, null=0))


def sparse_layers(c: Asked) -> Callable[[int], bool]:
    """Qwen's rule for the layers with experts."""
    step, dense = c.whole("decoder_sparse_step", 1), c.many("mlp_only_layers") or []
    return lambda i: i not in dense and (i + 1) % step == 0


def as_experts(c: Asked, key: str, shared: int, width: int) -> int:
    """How many experts of this width are as wide as what every token visits."""
    if shared % width:
        c.refuse(key, f": expected a multiple of {width}, the width of an expert")
    return shared // width


@reads("qwen2_moe")
def qwen2_moe(c: Asked) -> Fields:
    first, width = c.whole("max_window_layers", 28, least=0), c.whole("moe_intermediate_size", 1408)
    shared = c.whole("shared_expert_intermediate_size", 5632, least=0)
    fields = rotary_block(c, kv_heads=16) | biases(c.switch("qkv_bias", True), output=False)
    fields |= experts(
        fields["layers"],
        sparse_layers(c),
        routed=c.whole("num_experts", 60),
        active=c.whole("num_experts_per_tok", 4),
        width=width,
        shared=as_experts(c, "shared_expert_intermediate_size", shared, width),
        shared_gate=True,
    )
    return qwen_window(c, fields, lambda i: (i + 1) % 2 == 1 and i < first)


@reads("qwen3_moe")
def qwen3_moe(c: Asked) -> Fields:
    fields = llama_block(c, kv_heads=4) | {"query_key_norm": "head"}
    fields |= experts(
        fields["layers"],
        sparse_layers(c),
        routed=c.whole("num_local_experts", 128, also="num_experts"),
        active=c.whole("num_experts_per_tok", 8),
        width=c.whole("moe_intermediate_size", 768),
    )
    c.without_effect("max_window_layers")
    return qwen_window(c, fields, always)


@reads("olmoe")
def olmoe(c: Asked) -> Fields:
    fields = llama_block(c, head_dim=None) | {"query_key_norm": "full"}
    c.must("head_dim", None, fields["width"] // fields["heads"])  # the norms' width is not of it
    return fields | experts(
        fields["layers"],
        always,
        routed=c.whole("num_experts", 64, also="num_local_experts"),
        active=c.whole("num_experts_per_tok", 8),
        width=fields["ffn_width"],
    )


@reads("gpt_oss")
def gpt_oss(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8, head_dim=64)
    fields |= biases(c.switch("attention_bias", True), mlp=True) | {"attention_sinks": True}
    c.without_effect("experts_per_token", "initial_context_length")  # say again what others say
    fields |= experts(
        fields["layers"],
        always,
        routed=c.whole("num_local_experts", 128, also="num_experts"),
        active=c.whole("num_experts_per_tok", 4),
        width=fields["ffn_width"],
        router_bias=True,
    )
    return sliding(c, fields, all_but_every(2), c.whole("sliding_window", 128, null=0))


@reads("llama4_text")
def llama4(c: Asked) -> Fields:
    fields = llama_block(c, kv_heads=8, head_dim=128)
    c.without_effect("use_qk_norm")  # divides by the length and has no weights
    step, sparse = c.whole("interleave_moe_layer_step", 1), c.many("moe_layers")
    fields |= experts(
        fields["layers"],
        lambda i: (i + 1) % step == 0 if sparse is None else i in sparse,
        routed=c.whole("num_local_experts", 16),
        active=c.whole("num_experts_per_tok", 1),
        width=fields["ffn_width"],
        shared=1,
    )
    fields["ffn_width"] = c.whole("intermediate_size_mlp", 16384)  # of the layers without experts
    width = c.whole("attention_chunk_size", 8192, null=0)
    return fields | window_of(fields["layers"], width, llama4_chunked(c, fields["layers"]), True)


def llama4_chunked(c: Asked, layers: int) -> list[bool]:
    """Which layers see no more than their chunk: those with rotary positions, unless said."""
    every = c.whole("no_rope_layer_interval", 4)
    rotary = c.many("no_rope_layers") or [(i + 1) % every for i in range(layers)]
    kinds = layer_kinds(c, layers, ("chunked_attention", "full_attention"))
    return [kind == "chunked_attention" for kind in kinds] if kinds else [bool(r) for r in rotary]


def deepseek(c: Asked, *, v3: bool) -> Fields:
    """Latent attention, and many narrow experts behind the first dense layers."""
    latent = Latent(
        kv_rank=c.whole("kv_lora_rank", 512),
        rope_dim=c.whole("qk_rope_head_dim", 64),
        nope_dim=c.whole("qk_nope_head_dim", 128),
        value_dim=c.whole("v_head_dim", 128),
        query_rank=c.whole("q_lora_rank", 1536, null=0),
    )
    if not v3:
        c.must("mlp_bias", False)  # transformers gives it to shared experts and not to routed ones
    c.must("moe_layer_freq", 1)
    c.without_effect("qk_head_dim")
    fields = llama_block(c) | {"latent": latent, "kv_heads": 0, "head_dim": latent.value_dim}
    dense = c.whole("first_k_dense_replace", 3 if v3 else 0, least=0)
    return fields | experts(
        fields["layers"],
        lambda i: i >= dense,
        routed=c.whole(
            "n_routed_experts", 256 if v3 else 64, also="num_local_experts" if v3 else "num_experts"
        ),
        active=c.whole("num_experts_per_tok", 8 if v3 else None),
        width=c.whole("moe_intermediate_size", 2048 if v3 else 1407),
        shared=c.whole("n_shared_experts", 1 if v3 else 2, least=0),
        router_bias=v3,
    )


@reads("deepseek_v2")
def deepseek_v2(c: Asked) -> Fields:
    return deepseek(c, v3=False)


@reads("deepseek_v3", "kimi_k2")  # Kimi K2 is a DeepSeek-V3 of other sizes
def deepseek_v3(c: Asked) -> Fields:
    return deepseek(c, v3=True)


@reads("glm4_moe")
def glm4_moe(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8)
    fields |= biases(c.switch("attention_bias", False), output=False)
    fields["query_key_norm"] = "head" if c.switch("use_qk_norm", False) else ""
    dense = c.whole("first_k_dense_replace", 1, least=0)
    return fields | experts(
        fields["layers"],
        lambda i: i >= dense,
        routed=c.whole("n_routed_experts", 128, also="num_local_experts"),
        active=c.whole("num_experts_per_tok", 8),
        width=c.whole("moe_intermediate_size", 1408),
        shared=c.whole("n_shared_experts", 1, least=0),
        router_bias=True,
    )


@reads("minimax_m2")
def minimax_m2(c: Asked) -> Fields:
    fields = rotary_block(c, kv_heads=8, head_dim=128) | {"query_key_norm": "full"}
    return fields | experts(
        fields["layers"],
        always,
        routed=c.whole("num_local_experts", 256, also="num_experts"),
        active=c.whole("num_experts_per_tok", 8),
        width=fields["ffn_width"],
        router_bias=True,
    )


@reads("granitemoehybrid")
def granite4(c: Asked) -> Fields:
    """Granite 4 where all of its layers attend: an MLP that every token visits, and experts."""
    fields = rotary_block(c) | biases(c.switch("attention_bias", False))
    fields["positions"] = "rotary" if c.get("position_embedding_type") == "rope" else "none"
    layers, width = fields["layers"], fields["ffn_width"]
    if layer_kinds(c, layers, ("full_attention",), also="layers_block_type") is None:
        raise InputError("layer_types is not there: every layer has a state space, not covered")
    c.without_effect(*(key for key in c.config if key.startswith("mamba_")), "time_step_limit")
    shared = c.whole("shared_intermediate_size", 1024)
    routed = c.whole("num_local_experts", 8, least=0)
    active = c.whole("num_experts_per_tok", 2, null=1)
    if not routed:
        return fields | {"ffn_width": shared}
    many = as_experts(c, "shared_intermediate_size", shared, width)
    sizes = {"routed": routed, "active": active, "width": width, "shared": many}
    return fields | experts(layers, always, **sizes)
