"""Types with experts: transformers' own count, with and without the defaults."""

import configs
import pytest
from configs import PAD, SPARSE

from mathlib.from_config import mixtures

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
CASES: list[tuple[str, dict]] = [
    ("deepseek_v2", LATENT),
    ("deepseek_v2", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("deepseek_v3", LATENT),
    ("deepseek_v3", LATENT | {"attention_bias": True}),
    ("deepseek_v3", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("gpt_oss", SPARSE),
    ("gpt_oss", SPARSE | {"attention_bias": False, "head_dim": 10}),
    ("llama4_text", SPARSE),
    ("llama4_text", SPARSE | {"interleave_moe_layer_step": 2, "intermediate_size_mlp": 72}),
    ("mixtral", SPARSE),
    ("olmoe", PAD | SPARSE),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 96}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "qkv_bias": False}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 2}),
    ("qwen3_moe", QWEN_MOE),
    ("qwen3_moe", QWEN_MOE | {"mlp_only_layers": [0, 1]}),
]
RELEASED: dict[str, dict] = {
    "olmoe": {"intermediate_size": 1024},
    "qwen2_moe": {},
    "gpt_oss": {"num_hidden_layers": 24, "num_local_experts": 32},
}
PUBLISHED = {"olmoe": 6_919_161_856, "gpt_oss": 20_914_757_184}


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_the_count_is_the_built_models(kind, changes):
    configs.is_the_built_models(kind, changes)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    configs.is_the_same_without_defaults(kind, changes)


def test_every_type_is_tried():
    """Every switch of every type at least once each way."""
    assert {kind for kind, _ in CASES} == configs.readers_of(mixtures)


@pytest.mark.parametrize("kind", RELEASED)
def test_released_models_to_the_last_parameter(kind):
    configs.is_the_released_one(kind, RELEASED[kind], PUBLISHED.get(kind))
