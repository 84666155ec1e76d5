"""Types like LLaMA without experts: transformers' own count, with and without the defaults."""

import configs
import pytest
from configs import ROTARY as CASES

from mathlib.from_config import rotary

RELEASED: dict[str, dict] = {
    "olmo2": {"vocab_size": 100352, "max_position_embeddings": 4096},
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
}


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_the_count_is_the_built_models(kind, changes):
    configs.is_the_built_models(kind, changes)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    configs.is_the_same_without_defaults(kind, changes)


def test_every_type_is_tried():
    """Every switch of every type at least once each way."""
    assert {kind for kind, _ in CASES} == configs.readers_of(rotary)


@pytest.mark.parametrize("kind", RELEASED)
def test_released_models_to_the_last_parameter(kind):
    configs.is_the_released_one(kind, RELEASED[kind])
