"""The types of before LLaMA: transformers' own count, with and without the defaults."""

import configs
import pytest
from configs import PAD

from mathlib.from_config import older

OLD = {"n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 97, "n_positions": 64}
CASES: list[tuple[str, dict]] = [
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


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_the_count_is_the_built_models(kind, changes):
    configs.is_the_built_models(kind, changes)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    configs.is_the_same_without_defaults(kind, changes)


def test_every_type_is_tried():
    """Every switch of every type at least once each way."""
    assert {kind for kind, _ in CASES} == configs.readers_of(older)
