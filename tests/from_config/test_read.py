"""A config.json becomes a Model, or is refused by the key that is not understood."""

import contextlib
import json

import configs
import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.from_config.asked import READERS, Asked
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
        ({"model_type": "qwen3_next"}, "linear attention is not covered"),
        ({"model_type": "falcon_h1"}, "a state space beside attention is not covered"),
        ({"model_type": "deepseek_v32"}, "attention to what an indexer picks is not covered"),
        ({"model_type": "bamba"}, "a state space beside attention is not covered"),
        ({"model_type": "glm4"}, "'glm4' is not covered; expected one of bloom, cohere, cohere2, "),
        ({"model_type": ["llama"]}, "model_type = ['llama'] is not covered; expected one of bloom"),
        ({}, "model_type = None is not covered"),
        (LLAMA3 | {"is_encoder_decoder": True}, "is_encoder_decoder = True is not covered"),
        (LLAMA3 | {"per_layer_config": {"0": {"intermediate_size": 8}}}, "per_layer_config = {"),
        (LLAMA3 | {"hidden_size": None}, "hidden_size = null: expected a whole number, 1 or"),
        (LLAMA3 | {"hidden_size": "4096"}, "hidden_size = '4096': expected a whole number"),
        (LLAMA3 | {"num_attention_heads": 0}, "num_attention_heads = 0: expected a whole number"),
        (LLAMA3 | {"head_dim": 0}, "head_dim = 0: expected a whole number, 1 or greater"),
        (LLAMA3 | {"intermediate_size": 0}, "intermediate_size = 0: expected a whole number"),
        (LLAMA3 | {"attention_bias": None}, "attention_bias = null: expected true or false"),
        (LLAMA3 | {"model_type": "gemma3", "text_config": {}}, "model_type = None is not"),
        (LLAMA3 | {"num_attention_heads": 33}, "heads = 33"),
        (GPT2 | {"add_cross_attention": True}, "add_cross_attention = True is not covered"),
        (
            MISTRAL | {"layer_types": ["full_attention", *["sliding_attention"] * 30] * 2},
            "layer_types",
        ),
        (
            MISTRAL | {"layer_types": ["odd"] * 32},
            "layer_types = 'odd': expected one of full_attention",
        ),
        (MISTRAL | {"layer_types": ["linear_attention"] * 32}, "linear attention or a state space"),
        (
            MISTRAL | {"layer_types": ["full_attention"]},
            "names 1 layers: expected 32, one for each",
        ),
        (MISTRAL | {"layer_types": 5}, "layer_types = 5: expected a list"),
        (
            LLAMA3 | {"model_type": "granitemoehybrid", "layer_types": ["attention", "mamba"] * 16},
            "layer_types has 'mamba': a state space is not covered",
        ),
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
    ],
)
def test_what_is_not_understood_is_refused(config, said):
    with pytest.raises(InputError) as refused:
        from_config(config)
    assert said in str(refused.value)


def test_all_that_is_wrong_is_told_at_once():
    wrong = {"hidden_size": None, "num_attention_heads": 0, "head_dim": "x", "mlp_bias": 3}
    with pytest.raises(InputError) as refused:
        from_config(LLAMA3 | wrong | {"is_encoder_decoder": True})
    assert all(key in str(refused.value) for key in (*wrong, "is_encoder_decoder"))
    assert "\n" not in str(refused.value) and str(refused.value).count("; and ") == len(wrong)


@pytest.mark.parametrize("kind", sorted(READERS))
def test_no_value_of_any_key_is_more_than_refused(kind):
    keys = Asked(configs.SMALL | {"model_type": kind})
    with contextlib.suppress(InputError):
        READERS[kind](keys)
    sizes = {key: size for key, size in configs.SMALL.items() if key in keys.asked}
    for key in sorted(keys.asked - {"model_type"}):
        for value in (None, 0, -1, 1.5, "x", [], [None], {}, True, 1e400, 10**30):
            with contextlib.suppress(InputError):
                from_config(sizes | {"model_type": kind, key: value})


def test_a_released_text_config_says_what_differs_from_its_class():
    """Gemma 3 4B: 3.88 billion, without vocabulary and heads in its file."""
    inner = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    inner |= {"model_type": "gemma3_text", "sliding_window": 1024}
    found = from_config({"model_type": "gemma3", "text_config": inner, "vision_config": {"a": 1}})
    assert params.total(found) == 3_880_263_168
    assert found.unread == ("vision_config (not counted)",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("t5-3b", "an encoder-decoder"),
        ("bert-large", "an encoder"),
        ("mamba-130m", "a state space"),
        ("qwen3-next-80b", "linear attention"),
        ("deepseek-v3.2", "attention to what an indexer picks"),
    ],
)
def test_the_same_sentence_by_name(name, kind):
    with pytest.raises(InputError, match=f"model = '{name}': {kind}.* is not covered"):
        specs.find_model(name)
