"""Small configs of every type, and transformers' own model of each as the oracle."""

import pytest

from mathlib.compute import params
from mathlib.from_config import from_config
from mathlib.from_config.asked import READERS

SMALL = {
    "hidden_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 56,
    "vocab_size": 97,
    "max_position_embeddings": 64,
}
PAD = {"pad_token_id": 0}
BUILT_AS = {
    "kimi_k2": "deepseek_v3"
}  # types of which transformers has the class under another name
SPARSE = {"num_experts_per_tok": 2, "num_local_experts": 6, "num_experts": 6}  # the one it knows

ROTARY: list[tuple[str, dict]] = [
    ("cohere", {}),
    ("cohere", {"use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False}),
    ("cohere2", {"sliding_window": 8}),
    ("gemma", {}),
    ("gemma2", {"sliding_window": 8}),
    ("gemma3_text", {"sliding_window": 8}),
    ("granite", {"attention_bias": True}),
    ("llama", {}),
    ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    ("llama", {"tie_word_embeddings": True, "num_key_value_heads": None}),
    ("mistral", {}),
    ("olmo", PAD),
    ("olmo2", PAD),
    ("olmo3", PAD),
    ("persimmon", {}),
    ("persimmon", {"qk_layernorm": False, "tie_word_embeddings": True}),
    ("phi", {}),
    ("phi", {"qk_layernorm": True}),
    ("phi3", PAD | {"sliding_window": 8}),
    ("qwen2", {}),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 2, "sliding_window": 8}),
    ("qwen3", {}),
    ("smollm3", PAD),
    ("stablelm", {}),
    ("stablelm", {"qk_layernorm": True, "use_qkv_bias": True}),
    ("stablelm", {"use_parallel_residual": True}),
    ("starcoder2", {}),
    ("starcoder2", {"use_bias": False, "sliding_window": 8}),
]
LATENT = {
    "kv_lora_rank": 10,
    "q_lora_rank": 14,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "moe_intermediate_size": 24,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "first_k_dense_replace": 2,
    "num_key_value_heads": 4,
}
QWEN_MOE = {**SPARSE, "moe_intermediate_size": 24}
GRANITE = {"layer_types": ["full_attention"] * 5, "mamba_n_heads": 4, **PAD}
MIXTURES: list[tuple[str, dict]] = [
    ("deepseek_v2", LATENT),
    ("deepseek_v2", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("deepseek_v3", LATENT),
    ("deepseek_v3", LATENT | {"attention_bias": True}),
    ("deepseek_v3", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("glm4_moe", LATENT | {"num_attention_heads": 8}),
    ("glm4_moe", LATENT | {"use_qk_norm": True, "attention_bias": True, "n_shared_experts": 1}),
    ("gpt_oss", SPARSE),
    ("gpt_oss", SPARSE | {"attention_bias": False, "head_dim": 10}),
    ("granitemoehybrid", GRANITE | {"num_local_experts": 0, "position_embedding_type": "rope"}),
    ("granitemoehybrid", GRANITE | SPARSE | {"shared_intermediate_size": 112}),
    ("kimi_k2", LATENT | {"first_k_dense_replace": 1, "n_shared_experts": 1}),
    ("llama4_text", SPARSE),
    ("llama4_text", SPARSE | {"interleave_moe_layer_step": 2, "intermediate_size_mlp": 72}),
    ("minimax_m2", SPARSE | {"head_dim": 16}),
    ("mixtral", SPARSE),
    ("olmoe", PAD | SPARSE),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 96}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "qkv_bias": False}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 2}),
    ("qwen3_moe", QWEN_MOE),
    ("qwen3_moe", QWEN_MOE | {"mlp_only_layers": [0, 1]}),
]
OLD = {"n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 97, "n_positions": 64}
OLDER: list[tuple[str, dict]] = [
    ("bloom", {"hidden_size": 48, "n_layer": 3, "n_head": 4, "vocab_size": 97}),
    ("falcon", {}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    ("falcon", {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("falcon", {"parallel_attn": False, "multi_query": False, "alibi": True}),
    ("gpt2", OLD),
    ("gpt2", OLD | {"n_inner": 50}),
    ("gpt_bigcode", OLD),
    ("gpt_bigcode", OLD | {"multi_query": False}),
    ("gpt_neox", {}),
    ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
    ("gptj", OLD | {"rotary_dim": 4}),
    ("mpt", {"d_model": 48, "n_heads": 4, "n_layers": 3, "vocab_size": 97, "max_seq_len": 64}),
    ("opt", {"ffn_dim": 56, "word_embed_proj_dim": 48, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "do_layer_norm_before": False, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "enable_bias": False, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "layer_norm_elementwise_affine": False, **PAD}),
]


def config_of(kind, changes):
    """A small config as transformers completes it."""
    transformers = pytest.importorskip("transformers")
    kind = BUILT_AS.get(kind, kind)
    known = transformers.AutoConfig.for_model(kind).to_dict()
    sizes = {key: size for key, size in {**SMALL, **changes}.items() if key in known}
    return transformers.AutoConfig.for_model(kind, **sizes)


def written(kind, config):
    """What its file then says."""
    return config.to_dict() | {"model_type": kind}


def built(config):
    """Parameters of the model that transformers builds, each once, and DeepSeek's corrections,
    which a checkpoint holds too.
    """
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    corrections = [one for name, one in model.named_buffers() if "correction_bias" in name]
    return sum(one.numel() for one in [*model.parameters(), *corrections])


def readers_of(module):
    """The types that a module reads."""
    return {kind for kind, reader in READERS.items() if reader.__module__ == module.__name__}


def numbered(cases):
    """Names for the cases of a type."""
    return [f"{kind}-{number}" for number, (kind, _) in enumerate(cases)]


def is_the_built_models(kind, changes):
    config = config_of(kind, changes)
    assert params.total(from_config(written(kind, config))) == built(config)


def is_the_same_without_defaults(kind, changes):
    """A file without the keys that have their type's default is the same model."""
    config = config_of(kind, changes)
    whole, default = written(kind, config), type(config)().to_dict()
    sizes = {"vocab_size", "model_type", "intermediate_size"}
    short = {k: v for k, v in whole.items() if k in sizes or v != default.get(k)}
    assert from_config(short) == from_config(whole)


def is_the_released_one(kind, changes, published=None):
    """To the last parameter; at these sizes a near field once got the count nearly right."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **changes)
    counted = params.total(from_config(config.to_dict()))
    assert counted == built(config) and counted == (published or counted)
