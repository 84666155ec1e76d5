"""A config.json becomes a Model, or is refused by the key that is not understood."""

import json

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.from_config.read import from_config

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
