"""A config.json read as a Model, against the model that transformers builds from it, parameter for
parameter.
"""

import json

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.from_config import READERS, from_config

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
SPARSE = {"num_experts_per_tok": 2, "num_local_experts": 6, "num_experts": 6}  # the one it knows
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
OLD = {"n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 97, "n_positions": 64}
QWEN_MOE = {**SPARSE, "moe_intermediate_size": 24}
# type, and what is changed besides the sizes: every switch of every type at least once each way
CASES: list[tuple[str, dict]] = [
    ("bloom", {"hidden_size": 48, "n_layer": 3, "n_head": 4, "vocab_size": 97}),
    ("cohere", {}),
    ("cohere", {"use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False}),
    ("cohere2", {"sliding_window": 8}),
    ("deepseek_v2", LATENT),
    ("deepseek_v2", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("deepseek_v3", LATENT),
    ("deepseek_v3", LATENT | {"attention_bias": True}),
    ("deepseek_v3", LATENT | {"q_lora_rank": None, "attention_bias": True}),
    ("falcon", {}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    ("falcon", {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("falcon", {"parallel_attn": False, "multi_query": False, "alibi": True}),
    ("gemma", {}),
    ("gemma2", {"sliding_window": 8}),
    ("gemma3_text", {"sliding_window": 8}),
    ("gpt2", OLD),
    ("gpt2", OLD | {"n_inner": 50}),
    ("gpt_bigcode", OLD),
    ("gpt_bigcode", OLD | {"multi_query": False}),
    ("gpt_neox", {}),
    ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
    ("gpt_oss", SPARSE),
    ("gpt_oss", SPARSE | {"attention_bias": False, "head_dim": 10}),
    ("gptj", OLD | {"rotary_dim": 4}),
    ("granite", {"attention_bias": True}),
    ("llama", {}),
    ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    ("llama", {"tie_word_embeddings": True, "num_key_value_heads": None}),
    ("llama4_text", SPARSE),
    ("llama4_text", SPARSE | {"interleave_moe_layer_step": 2, "intermediate_size_mlp": 72}),
    ("mistral", {}),
    ("mixtral", SPARSE),
    ("mpt", {"d_model": 48, "n_heads": 4, "n_layers": 3, "vocab_size": 97, "max_seq_len": 64}),
    ("olmo", PAD),
    ("olmo2", PAD),
    ("olmo3", PAD),
    ("olmoe", PAD | SPARSE),
    ("opt", {"ffn_dim": 56, "word_embed_proj_dim": 48, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "do_layer_norm_before": False, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "enable_bias": False, **PAD}),
    ("opt", {"word_embed_proj_dim": 48, "layer_norm_elementwise_affine": False, **PAD}),
    ("persimmon", {}),
    ("persimmon", {"qk_layernorm": False, "tie_word_embeddings": True}),
    ("phi", {}),
    ("phi", {"qk_layernorm": True}),
    ("phi3", PAD | {"sliding_window": 8}),
    ("qwen2", {}),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 2, "sliding_window": 8}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 96}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "qkv_bias": False}),
    ("qwen2_moe", QWEN_MOE | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 2}),
    ("qwen3", {}),
    ("qwen3_moe", QWEN_MOE),
    ("qwen3_moe", QWEN_MOE | {"mlp_only_layers": [0, 1]}),
    ("smollm3", PAD),
    ("stablelm", {}),
    ("stablelm", {"qk_layernorm": True, "use_qkv_bias": True}),
    ("stablelm", {"use_parallel_residual": True}),
    ("starcoder2", {}),
    ("starcoder2", {"use_bias": False, "sliding_window": 8}),
]
NAMED = [f"{kind}-{number}" for number, (kind, _) in enumerate(CASES)]
# released models whose counts a near field once got nearly right
RELEASED = {
    "olmo2": {"vocab_size": 100352, "max_position_embeddings": 4096},
    "olmoe": {"intermediate_size": 1024},
    "stablelm": {
        "vocab_size": 100352,
        "hidden_size": 5120,
        "intermediate_size": 13824,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "qk_layernorm": True,
        "use_parallel_residual": True,
    },
    "cohere": {
        "hidden_size": 12288,
        "intermediate_size": 33792,
        "num_hidden_layers": 64,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "use_qk_norm": True,
    },
    "persimmon": {},
    "qwen2_moe": {},
    "gpt_oss": {"num_hidden_layers": 24, "num_local_experts": 32},
}
PUBLISHED = {"olmoe": 6_919_161_856, "gpt_oss": 20_914_757_184}


def config_of(kind, changes):
    """A small config as transformers completes it."""
    transformers = pytest.importorskip("transformers")
    known = transformers.AutoConfig.for_model(kind).to_dict()
    sizes = {key: size for key, size in {**SMALL, **changes}.items() if key in known}
    return transformers.AutoConfig.for_model(kind, **sizes)


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


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=NAMED)
def test_the_count_is_the_built_models(kind, changes):
    config = config_of(kind, changes)
    assert params.total(from_config(config.to_dict())) == built(config)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=NAMED)
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    """A file without the keys that have their type's default is the same model."""
    config = config_of(kind, changes)
    whole, default = config.to_dict(), type(config)().to_dict()
    sizes = {"vocab_size", "model_type", "intermediate_size"}
    short = {k: v for k, v in whole.items() if k in sizes or v != default.get(k)}
    assert from_config(short) == from_config(whole)


def test_every_type_is_tried():
    assert {kind for kind, _ in CASES} == set(READERS)


@pytest.mark.parametrize("kind", RELEASED)
def test_released_models_to_the_last_parameter(kind):
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **RELEASED[kind])
    counted = params.total(from_config(config.to_dict()))
    assert counted == built(config) and counted == PUBLISHED.get(kind, counted)


LLAMA3 = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.0.dev0",
    "use_cache": True,
    "vocab_size": 128256,
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}


def test_a_config_is_the_model_of_that_name():
    assert from_config(LLAMA3) == specs.find_model("llama3-8b").but(name="llama of config.json")
    gpt2 = from_config(GPT2 | {"n_positions": 1024, "n_ctx": 1024, "_name_or_path": "gpt2"})
    assert gpt2 == specs.find_model("gpt2").but(attention="flash")  # the kernel of today


def test_dropout_is_the_configs_own():
    assert not from_config(LLAMA3).dropout and from_config(GPT2).dropout
    assert from_config(LLAMA3 | {"attention_dropout": 0.1}).dropout
    off = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    assert not from_config(GPT2 | off | {"summary_first_dropout": 0.1}).dropout


def test_a_dictionary_a_file_and_a_folder_are_one(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA3), "utf-8")
    assert from_config(file) == from_config(str(tmp_path)) == from_config(LLAMA3)


MISTRAL = {k: v for k, v in LLAMA3.items() if k != "attention_bias"} | {"model_type": "mistral"}
SPARSE_QWEN = LLAMA3 | {"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 64}


def test_patterns_of_windows_and_experts():
    assert from_config(MISTRAL).window == specs.Window(4096)
    assert from_config(MISTRAL | {"sliding_window": None}).window is None
    gemma = from_config(LLAMA3 | {"model_type": "gemma2", "num_hidden_layers": 6})
    assert gemma.window == specs.Window(4096, full_every=2) and gemma.windowed_layers == 3
    llama4 = from_config(
        LLAMA3
        | {"model_type": "llama4_text", "num_local_experts": 4, "interleave_moe_layer_step": 2}
    )
    assert llama4.window == specs.Window(8192, full_every=4, chunked=True)
    assert llama4.experts.every == 2 and llama4.expert_layers == 16
    dense = from_config(SPARSE_QWEN | {"mlp_only_layers": [0, 1, 2]})
    assert (dense.experts.dense_layers, dense.expert_layers) == (3, 29)
    assert from_config(SPARSE_QWEN | {"mlp_only_layers": [*range(32)]}).experts is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "t5"}, "model_type = 't5': an encoder-decoder is not covered"),
        ({"model_type": "bart"}, "an encoder-decoder is not covered"),
        ({"model_type": "mamba2"}, "a state space model is not covered"),
        ({"model_type": "falcon_mamba"}, "a state space model is not covered"),
        ({"model_type": "bert"}, "an encoder is not covered"),
        ({"model_type": "llama5"}, "did you mean llama"),
        ({"model_type": ["llama"]}, "model_type"),
        ({}, "model_type = None"),
        (LLAMA3 | {"is_encoder_decoder": True}, "is_encoder_decoder = True is not covered"),
        (LLAMA3 | {"residual_streams": 4}, "residual_streams = 4 is not understood"),
        (LLAMA3 | {"n_shared_experts": 1}, "n_shared_experts = 1 is not understood"),
        (LLAMA3 | {"qk_rope_head_dim": 8}, "qk_rope_head_dim = 8 is not understood"),
        (LLAMA3 | {"hidden_size": None}, "expected hidden_size, which is not there"),
        (LLAMA3 | {"hidden_size": "4096"}, "width = '4096'"),
        (LLAMA3 | {"num_attention_heads": 33}, "heads = 33"),
        ({"model_type": "gemma3", "text_config": {}}, "expected the dictionary under its text"),
        (GPT2 | {"add_cross_attention": True}, "add_cross_attention = True is not understood"),
        (
            MISTRAL | {"layer_types": ["full_attention", *["sliding_attention"] * 30] * 2},
            "layer_types",
        ),
        (MISTRAL | {"layer_types": ["linear_attention"] * 32}, "layer_types = 'linear_attention'"),
        (SPARSE_QWEN | {"mlp_only_layers": [1, 4]}, "where experts are is not covered"),
        (LLAMA3 | {"model_type": "mpt", "attn_config": {"qk_ln": True}}, "qk_ln = True"),
        (
            {
                "model_type": "opt",
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "vocab_size": 50272,
                "word_embed_proj_dim": 512,
            },
            "word_embed_proj_dim = 512: an embedding narrower than the stream",
        ),
        (7, "config = 7: expected a dictionary or a path"),
        ("no/such/file.json", "config = 'no/such/file.json': cannot be read"),
        (__file__, "expected a JSON file"),
    ],
)
def test_what_is_not_understood_is_refused(config, said):
    with pytest.raises(InputError) as refused:
        from_config(config)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("t5-3b", "an encoder-decoder"),
        ("bert-large", "an encoder"),
        ("mamba-130m", "a state space"),
    ],
)
def test_the_same_sentence_by_name(name, kind):
    with pytest.raises(InputError, match=f"model = '{name}': {kind}.* is not covered"):
        specs.find_model(name)
