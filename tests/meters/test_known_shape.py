"""What is read off a reader's model: its shape, its kernel, what it computes again, its batches."""

import pytest
import torch
from configs import config_of
from torch import nn

from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.meters import known_shape
from mathlib.meters.flop import FlopMeter
from mathlib.model import data, gpt

MODEL = gpt.small(vocab=len(data.vocabulary()))


def test_a_shape_is_found_inside_a_wrapper_and_refused_where_there_is_none():
    inner = gpt.GPT(MODEL)
    assert known_shape.architecture(nn.Sequential(inner)) == (inner, MODEL)
    with pytest.raises(InputError, match="Linear has no config"):
        known_shape.architecture(nn.Linear(1, 1))


def test_every_forward_is_noted_until_the_end():
    model = gpt.GPT(MODEL)
    with known_shape.forwards(model) as shapes:
        for sequences in (1, 3):
            model(data.batch(sequences, 8)[0])
    model(data.batch(2, 8)[0])
    assert shapes == [(1, 8), (3, 8)]


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_two_forwards_compute_twice_and_keep_once(recompute):
    model = gpt.GPT(MODEL, recompute=recompute)
    one, two = (known_shape.amounts(model, MODEL, [(2, 32)] * n) for n in (1, 2))
    assert two == one | {name: 2 * one[name] for name in ("FLOP", "model FLOP")}
    assert one["model FLOP"] == flops.training(MODEL, sequences=2, tokens=32).total
    with FlopMeter(model) as counted:
        model.loss(*data.batch(2, 32)).backward()
    assert counted.parts.total() == one["FLOP"]


@pytest.mark.parametrize("kernel, word", [("sdpa", "flash"), ("eager", "standard")])
def test_a_config_of_transformers_says_which_kernel(kernel, word):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, attn_implementation=kernel
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    assert known_shape.architecture(model)[1].attention == word
    assert known_shape.recomputes(model) == "none"
    model.gradient_checkpointing_enable()
    assert known_shape.recomputes(model) == "full"


GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64}
DEEPSEEK = {"num_key_value_heads": 4, "n_routed_experts": 8, "moe_intermediate_size": 24}
DEEPSEEK |= {"num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}
DEEPSEEK |= {"q_lora_rank": 20, "kv_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16}
AGAIN = {  # what stands behind an MLP's last matmul, or does not
    "llama": {},
    "gpt2": GPT2,
    "gpt_bigcode": GPT2,
    "opt": {"ffn_dim": 56, "word_embed_proj_dim": 48},
    "gemma2": {"head_dim": 12},
    "gemma3_text": {"head_dim": 12},
    "olmo2": {},
    "qwen2_moe": {"moe_intermediate_size": 24, "shared_expert_intermediate_size": 24},
    "deepseek_v3": DEEPSEEK | {"v_head_dim": 12},
}


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("kind", AGAIN)
def test_what_transformers_compute_again_is_what_the_formula_says(kind, reentrant):
    transformers = pytest.importorskip("transformers")
    config = config_of(kind, {"num_hidden_layers": 2, "pad_token_id": 0} | AGAIN[kind])
    how = {"attn_implementation": "eager", "experts_implementation": "eager"}
    built = transformers.AutoModelForCausalLM.from_config(config, **how)
    built.train().gradient_checkpointing_enable({"use_reentrant": reentrant})
    module, shape = known_shape.architecture(built)
    tokens = torch.randint(1, 97, (2, 16))
    with FlopMeter(built) as counted:
        built(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    assert counted.parts.total() == known_shape.amounts(module, shape, [(2, 16)])["FLOP"]
