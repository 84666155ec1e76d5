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
SPARSE = {"num_experts_per_tok": 2, "num_local_experts": 6, "num_experts": 6}  # the one it knows


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


def readers_of(module):
    """The types that a module reads."""
    return {kind for kind, reader in READERS.items() if reader.__module__ == module.__name__}


def numbered(cases):
    """Names for the cases of a type."""
    return [f"{kind}-{number}" for number, (kind, _) in enumerate(cases)]


def is_the_built_models(kind, changes):
    config = config_of(kind, changes)
    assert params.total(from_config(config.to_dict())) == built(config)


def is_the_same_without_defaults(kind, changes):
    """A file without the keys that have their type's default is the same model."""
    config = config_of(kind, changes)
    whole, default = config.to_dict(), type(config)().to_dict()
    sizes = {"vocab_size", "model_type", "intermediate_size"}
    short = {k: v for k, v in whole.items() if k in sizes or v != default.get(k)}
    assert from_config(short) == from_config(whole)


def is_the_released_one(kind, changes, published=None):
    """To the last parameter; at these sizes a near field once got the count nearly right."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **changes)
    counted = params.total(from_config(config.to_dict()))
    assert counted == built(config) and counted == (published or counted)
