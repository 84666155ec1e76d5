"""The types' classes in transformers: which keys they have, and which of them change the count."""

import dataclasses
import warnings

import configs
import pytest

from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.from_config import from_config, read
from mathlib.from_config.asked import NAMES, READERS, Asked

SMALL = dict(
    [*reversed(configs.ROTARY + configs.MIXTURES + configs.OLDER)]
)  # the first of each type
LEFT_OUT = {"num_mtp_layers", "num_nextn_predict_layers"}  # transformers builds no such layer
UNCOVERED = {  # refused: of no effect on this count, or in transformers alone
    "expansion_ratio",
    "head_dim",
    "moe_layer_freq",
    "no_bias",
    "use_bidirectional_attention",
    "use_sliding_window",
}
EXTRA = [  # of released files
    ("bloom", "masked_softmax_fusion", True),
    ("cohere2", "cache_implementation", "hybrid"),
    ("cohere", "model_max_length", 131072),
    ("falcon", "ff_factor", 4),
    ("gemma2", "cache_implementation", "hybrid"),
    ("gemma3_text", "cache_implementation", "hybrid"),
    ("gptj", "rotary", True),
    ("llama", "unsloth_fixed", True),
    ("llama", "residual_streams", 4),
    ("llama4_text", "cache_implementation", "hybrid"),
    ("mpt", "tokenizer_name", "EleutherAI/gpt-neox-20b"),
    ("opt", "prefix", "</s>"),
    ("phi3", "full_attn_mod", 1),
    ("smollm3", "max_window_layers", 28),
    ("starcoder2", "mlp_type", "default"),
]


def small(kind):
    config = configs.config_of(kind, SMALL[kind])
    return config, configs.written(kind, config)


def asked_of(config):
    asked = Asked(config)
    READERS[config["model_type"]](asked)
    return asked.asked


def own(config):
    """Keys of the type's own class, whatever it calls them."""
    transformers = pytest.importorskip("transformers")
    common = {one.name for one in dataclasses.fields(transformers.PreTrainedConfig)}
    return {one.name for one in dataclasses.fields(config)} - common | set(config.attribute_map)


@pytest.mark.parametrize("kind", sorted(READERS))
def test_every_key_of_a_types_class_is_known(kind):
    config, whole = small(kind)
    assert set(from_config(whole).unread) <= LEFT_OUT
    ones = {key: 1 for key in own(config) - asked_of(whole) - LEFT_OUT if key not in whole}
    sizes = {name for names in NAMES.values() for name in names}
    assert set(Asked(ones).unread()) <= sizes | {"model_type"}


def others(value):
    """Values beside this one, and whether a reader has to take the first."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [2 * value, 0, None]
    return [8, True] if value is None else [None]


def transformers_count(config, changed):
    """Parameters, or None where transformers does not build that either."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return configs.built(type(config)(**changed))
    except Exception:  # of every kind
        return None


def our_count(changed):
    """Parameters, or None where it is refused; nothing else may happen."""
    try:
        return params.total(from_config(changed))
    except InputError:
        return None


@pytest.mark.parametrize("kind", sorted(READERS))
def test_a_key_that_changes_transformers_count_changes_ours_alike_or_is_refused(kind):
    config, whole = small(kind)
    usual = configs.built(config)
    for key in sorted(own(config) | asked_of(whole) - {"model_type"}):
        for place, value in enumerate(others(whole.get(key))):
            changed = whole | {key: value}
            ours = our_count(changed)
            covers = place == 0 and whole.get(key) is not None and key not in UNCOVERED
            if ours is None and not covers:
                continue  # refused, and whatever transformers says is fine
            theirs = transformers_count(config, changed)
            assert None in (theirs, ours) or theirs == ours, f"{key} = {value}"
            if value is None and key == "num_key_value_heads" and key in asked_of(whole):
                assert theirs or not ours, f"{key} = null is refused by transformers"
            assert ours or theirs != usual, f"{key} = {value} changes nothing"


@pytest.mark.parametrize(("kind", "key", "value"), EXTRA)
def test_a_key_that_the_class_does_not_have_is_named_and_ignored(kind, key, value):
    _, whole = small(kind)
    found = from_config(whole | {key: value})
    assert found.unread == (key,) and found == from_config(whole)
    off = from_config(whole | {key: False})
    assert off.unread == () and off.but(layers=1).unread == ()
    assert found.but(layers=1).unread == (key,)


@pytest.mark.parametrize("kind", read.NESTED)
def test_what_a_text_config_leaves_out_is_as_in_the_class(kind):
    transformers = pytest.importorskip("transformers")
    default = transformers.AutoConfig.for_model(configs.BUILT_AS.get(kind, kind)).to_dict()
    assert read.NESTED[kind] == tuple(default[key] for key in read.SIZES)


VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "image_size": 28}
VISION |= {"num_attention_heads": 4, "patch_size": 14}
NESTED = {"gemma3": "gemma3_text", "llava": "llama", "mistral3": "mistral", "llama4": "llama4_text"}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("tied", [True, False])
def test_the_text_part_of_a_model_that_sees(kind, tied):
    """Its language model and its head, as transformers builds them inside the whole."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    inner = small(NESTED[kind])[1] | {"tie_word_embeddings": tied}
    sizes = {"text_config": inner, "vision_config": VISION, "tie_word_embeddings": tied}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        whole = transformers.AutoModelForImageTextToText.from_config(config)
    whole.tie_weights()
    seen = ("vision", "projector")
    text = sum(w.numel() for n, w in whole.named_parameters() if not any(s in n for s in seen))
    found = from_config(config.to_dict())
    assert params.total(found) == text
    assert found.unread == ("vision_config (not counted)",)
