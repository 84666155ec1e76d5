"""A config.json that notes which of its keys somebody has asked for, and who reads which type."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from mathlib.architecture import MOST_LAYERS
from mathlib.checks import InputError, whole

HARMLESS = [  # names of keys that transformers' classes have and that change no shape
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
    """A config that remembers which of its keys somebody has asked for, and what is wrong with
    them. All of it is told at once: whoever asks goes on with a value that would do.
    """

    def __init__(self, config: Mapping[str, Any]):
        self.config, self.asked = config, {"model_type"}
        self.problems: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        """A key's value, null included; `default` is for a key that is not there."""
        self.asked.add(key)
        return self.config.get(key, default)

    def refuse(self, key: str, told: str) -> None:
        """Note what is wrong with the value of a key, null as the file spells it."""
        value = self.config.get(key)
        self.problems.append(f"{key} = {'null' if value is None else repr(value)}{told}")

    def size(self, field: str, default: int | None = None) -> int:
        """One of the sizes every model has, by the first of its names that the file says."""
        names = NAMES[field]
        there = next((key for key in names if self.config.get(key) is not None), names[0])
        found = self.whole(there, default, null=default)
        if field == "layers" and found > MOST_LAYERS:  # they are gone through one by one
            self.refuse(there, f": expected at most {MOST_LAYERS:,}")
            return 1
        return int(found)

    def whole(
        self,
        key: str,
        default: int | None = None,
        *,
        least: int = 1,
        null: int | None = None,
        also: str = "",
    ) -> Any:
        """A whole number, `least` or greater. `null`: what it stands for, if it may be there;
        `also`: another name of the key.
        """
        named = [name for name in (key, also) if name and self.get(name) is not None]
        key = named[0] if named else key
        for other in named[1:]:
            if self.config[other] != self.config[key]:
                self.refuse(other, f": expected the same as {key}")
        if key not in self.config and default is not None:
            return default
        if key not in self.config:
            self.problems.append(f"expected {key}, which is not there")
        elif self.config[key] is None and null is not None:
            return null
        else:
            try:
                return whole(key, self.config[key], least)
            except InputError as refusal:
                self.problems.append(str(refusal).replace(" = None:", " = null:", 1))
        return max(least, 1)

    def switch(self, key: str, default: bool, *, null: bool | None = None) -> bool:
        """True or false. `null`: what stands for it, None: it is refused."""
        value = self.get(key, default)
        if value is None and null is not None:
            return null
        if not isinstance(value, bool):
            self.refuse(key, ": expected true or false")
        return value is True

    def many(self, key: str, also: str = "") -> list[Any] | None:
        """A list, or None where there is none or null; `also`: another name of the key."""
        named = [name for name in (key, also) if name and self.get(name) is not None]
        value = self.config[named[0]] if named else None
        if value is not None and not isinstance(value, list | tuple):
            self.refuse(named[0], ": expected a list")
            return None
        return value if value is None else list(value)

    def must(self, key: str, *accepted: Any) -> None:
        """A key of which only some values are understood; the first is the default."""
        value = self.get(key, accepted[0])
        if value not in accepted:
            words = " or ".join(map(repr, accepted))
            self.refuse(key, f" is not covered; expected {words}")

    def without_effect(self, *keys: str) -> None:
        """Keys that change nothing here, whatever their value."""
        self.asked.update(keys)

    def unread(self) -> tuple[str, ...]:
        """Keys that are switched on and that the type's class in transformers does not have."""
        return tuple(
            key
            for key, value in self.config.items()
            if key not in self.asked
            and not any(fnmatchcase(key, known) for known in HARMLESS)
            and value not in (None, False, 0, "", [], {})
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
