"""A model from a config.json as Hugging Face writes it: what `transformers` builds from it.

Each type has a reader in one of the modules below. A reader strikes off every key it asks for; a
key that is left, is switched on and is not known to leave the shape alone is refused: it might
change the count. What is not in the file is as in the type's class in transformers 5.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.from_config import mixtures, older, rotary  # noqa: F401  each brings its readers
from mathlib.from_config.asked import READERS, Asked
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


def from_config(config: Mapping[str, Any] | str | Path) -> Model:
    """The Model of a config.json, given as a dictionary, a file or the folder it is in.

    Parameters, FLOP and bytes then are those of the model that transformers builds from it. The
    multi-token prediction of DeepSeek-V3 is left out, as there.
    """
    read = config if isinstance(config, Mapping) else _file(config)
    kind = read.get("model_type")
    if "text_config" in read:
        raise InputError(
            f"config: model_type = {kind!r} sees images too, which is not covered; expected the "
            "dictionary under its text_config"
        )
    if isinstance(kind, str) and kind not in READERS:
        refuse_uncovered("model_type", kind)
    asked = Asked(read)
    asked.must("is_encoder_decoder", False)
    fields = READERS[one_of("model_type", kind, READERS)](asked)
    asked.refuse_the_rest()
    name = str(read.get("_name_or_path") or f"{kind} of config.json")
    fields |= {"dropout": _dropout(read), "attention": "flash"}  # transformers' default kernel
    return Model(name=name, source="config.json", **fields)


def _dropout(config: Mapping[str, Any]) -> bool:
    """Whether a layer drops anything in training; the older types do where nothing is said."""
    given = [config[key] for key in DROPOUTS if config.get(key) is not None]
    return any(given) if given else config["model_type"] in DROPPING


def _file(path: str | Path) -> dict[str, Any]:
    """A JSON file's object."""
    try:
        place = Path(path)
        text = (place / "config.json" if place.is_dir() else place).read_text("utf-8")
        read = json.loads(text)
    except TypeError:
        raise InputError(f"config = {path!r}: expected a dictionary or a path") from None
    except OSError as why:
        raise InputError(f"config = {str(path)!r}: cannot be read ({why.strerror})") from None
    except ValueError:
        raise InputError(f"config = {str(path)!r}: expected a JSON file") from None
    if not isinstance(read, dict):
        raise InputError(f"config = {str(path)!r}: expected a JSON object")
    return read
