"""A config.json that notes which of its keys somebody has asked for, and who reads which type."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from mathlib.checks import InputError

HARMLESS = [  # names of keys that change no shape
    "*_dtype",
    "*_eps",
    "*_pdrop",
    "*_token_id",
    "*_token_index",
    "*act",
    "*aux_loss*",
    "*drop",
    "*dropout*",
    "*epsilon",
    "*initializer*",
    "*multiplier*",
    "*scaling*",
    "*softcapping*",
    "*softmax_in_fp32",
    "_name_or_path",
    "activation",
    "activation_function",
    "apply_residual_connection_post_layernorm",
    "architectures",
    "attn_scale",
    "attn_temperature_tuning",
    "auto_map",
    "chunk_size_feed_forward",
    "clip_qkv",
    "dtype",
    "ep_size",
    "floor_scale",
    "hidden_activation",
    "id2label",
    "init_*",
    "is_decoder",
    "label2id",
    "logit_scale",
    "n_group",
    "norm_topk_prob",
    "original_max_position_embeddings",
    "output_*",
    "partial_rotary_factor",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "query_pre_attn_scalar",
    "reorder_and_upcast_attn",
    "return_dict*",
    "rope_*",
    "rotary_*",
    "router_jitter_noise",
    "scale_attn*",
    "scoring_func",
    "seq_aux",
    "slow_but_exact",
    "summary_*",
    "swiglu_*",
    "task_specific_params",
    "topk_*",
    "transformers_version",
    "use_cache",
]
NAMES = {  # of the same size in different types
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"),
}


class Asked:
    """A config that remembers which of its keys somebody has asked for."""

    def __init__(self, config: Mapping[str, Any]):
        self.config, self.asked = config, {"model_type"}

    def get(self, key: str, default: Any = None) -> Any:
        """A key's value, null included; `default` is for a key that is not there."""
        self.asked.add(key)
        return self.config.get(key, default)

    def size(self, field: str, default: int = 0) -> Any:
        """One of the sizes every model has, whatever its type calls it."""
        found = [self.get(key) for key in NAMES[field]]
        value = next((value for value in found if value is not None), default)
        if not value:
            raise InputError(f"config: expected {NAMES[field][0]}, which is not there")
        return value

    def must(self, key: str, *accepted: Any) -> None:
        """A key of which only some values are understood; the first is the default."""
        value = self.get(key, accepted[0])
        if value not in accepted:
            words = " or ".join(map(repr, accepted))
            raise InputError(f"config: {key} = {value!r} is not covered; expected {words}")

    def without_effect(self, *keys: str) -> None:
        """Keys that change nothing here, whatever their value."""
        self.asked.update(keys)

    def refuse_the_rest(self) -> None:
        """No key may be left that is switched on and might change the count."""
        for key, value in self.config.items():
            harmless = key in self.asked or any(fnmatchcase(key, known) for known in HARMLESS)
            if not harmless and value not in (None, False, 0, "", [], {}):
                raise InputError(
                    f"config: {key} = {value!r} is not understood and might change the count; "
                    "expected a config without it"
                )


Fields = dict[str, Any]  # of a Model
Reader = Callable[[Asked], Fields]
READERS: dict[str, Reader] = {}  # by type


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Make a function the reader of these types."""

    def register(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return register
