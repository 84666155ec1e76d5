"""A model from a config.json as Hugging Face writes it: what `transformers` builds from it.

Each type has a reader in one of the modules below. It asks for every key of the type's class in
transformers that changes the shape, and refuses what it does not understand; what is left over
transformers does not read, and the Model names it. What is not in the file is as in that class.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mathlib.checks import InputError
from mathlib.from_config import mixtures, older, rotary  # noqa: F401  each brings its readers
from mathlib.from_config.asked import READERS, Asked
from mathlib.from_config.files import loaded
from mathlib.specs import Model, refuse_uncovered

DROPOUTS = (  # what a layer applies; those of classifiers and whole layers are others
    "attention_dropout",
    "attn_dropout",
    "attn_pdrop",
    "dropout",
    "embd_pdrop",
    "hidden_dropout",
    "resid_pdrop",
    "residual_dropout",
)
DROPPING = ("gpt2", "gpt_bigcode", "opt")  # 0.1 by default
TEXT = "text_config"
SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "intermediate_size",
    "max_position_embeddings",
)
NESTED = {  # by type: what its class in transformers takes where a text_config says nothing
    "cohere2": (8192, 40, 64, 256000, 22528, 8192),
    "deepseek_v3": (7168, 61, 128, 129280, 18432, 4096),
    "gemma": (3072, 28, 16, 256000, 24576, 8192),
    "gemma2": (2304, 26, 8, 256000, 9216, 8192),
    "gemma3_text": (2304, 26, 8, 262208, 9216, 131072),
    "gpt_oss": (2880, 36, 64, 201088, 2880, 131072),
    "granite": (4096, 32, 32, 32000, 11008, 2048),
    "kimi_k2": (7168, 61, 128, 129280, 18432, 4096),
    "llama": (4096, 32, 32, 32000, 11008, 2048),
    "llama4_text": (5120, 48, 40, 202048, 8192, 131072),
    "mistral": (4096, 32, 32, 32000, 14336, 131072),
    "mixtral": (4096, 32, 32, 32000, 14336, 131072),
    "phi3": (3072, 32, 32, 32064, 8192, 4096),
    "qwen2": (4096, 32, 32, 151936, 22016, 32768),
    "qwen3": (4096, 32, 32, 151936, 22016, 32768),
    "qwen3_moe": (2048, 24, 32, 151936, 6144, 32768),
}


def from_config(config: Mapping[str, Any] | str | Path) -> Model:
    """The Model of a config.json, given as a dictionary, a file or the folder it is in.

    Parameters, FLOP and bytes then are those of the model that transformers builds from it. The
    multi-token prediction of DeepSeek-V3 is left out, as there. Of a model that sees images or
    hears it is the part that reads text. `unread` names the keys that have no part in it.
    """
    read, beside = _text_of(config if isinstance(config, Mapping) else loaded(config))
    kind = read.get("model_type")
    if not isinstance(kind, str) or kind not in READERS:
        _refuse_type(kind)
    asked = Asked(read)
    for key in ("is_encoder_decoder", "add_cross_attention"):
        asked.must(key, False)
    asked.must("per_layer_config", None, {})
    name = str(read.get("_name_or_path") or f"{kind} of config.json")
    try:
        fields = READERS[str(kind)](asked)
        fields |= {"dropout": _dropout(read), "attention": "flash"}  # transformers' default kernel
        if not asked.problems:
            unread = (*asked.unread(), *beside)
            return Model(name=name, source="config.json", unread=unread, **fields)
    except InputError as refusal:
        asked.problems.append(str(refusal))
    raise InputError(f"config: {'; and '.join(dict.fromkeys(asked.problems))}")


def _text_of(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The part of a config that is about text, and what stands beside it."""
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        return config, []
    outer = {key: config[key] for key in ("tie_word_embeddings", "_name_or_path") if key in config}
    usual = dict(zip(SIZES, NESTED.get(str(inner.get("model_type")), ()), strict=False))
    beside = [key for key, value in config.items() if isinstance(value, Mapping)]
    told = [f"{key} (not counted)" for key in beside if key.endswith("_config") and key != TEXT]
    return usual | outer | dict(inner), told


def _refuse_type(kind: Any) -> NoReturn:
    """Say what stands in the way, or which types there are: a near name is another model."""
    if isinstance(kind, str):
        refuse_uncovered("model_type", kind)
    raise InputError(
        f"model_type = {kind!r} is not covered; expected one of {', '.join(sorted(READERS))}"
    )


def _dropout(config: Mapping[str, Any]) -> bool:
    """Whether a layer drops anything in training; the older types do where nothing is said."""
    given = [config[key] for key in DROPOUTS if config.get(key) is not None]
    return any(given) if given else config["model_type"] in DROPPING
