"""A model from a config.json as Hugging Face writes it: what `transformers` builds from it.

Each type has a reader below. A reader strikes off every key it asks for; a key that is left, is
switched on and is not known to leave the shape alone is refused: it might change the count.
What is not in the file is as in the type's class in transformers 5.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.specs import Experts, Latent, Model, Window, refuse_uncovered

Fields = dict[str, Any]
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

    def refuse_the_rest(self) -> None:
        """No key may be left that is switched on and might change the count."""
        for key, value in self.config.items():
            harmless = key in self.asked or any(fnmatchcase(key, known) for known in HARMLESS)
            if not harmless and value not in (None, False, 0, "", [], {}):
                raise InputError(
                    f"config: {key} = {value!r} is not understood and might change the count; "
                    "expected a config without it"
                )


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
    trained: Fields = {
        "dropout": _dropout(read),
        "attention": "flash",
    }  # transformers' default kernel
    return Model(name=name, source="config.json", **trained, **fields)


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


def _shape(c: Asked, *, tied: bool, context: int = 2048) -> Fields:
    """What every type says in its own words."""
    fields = {name: c.size(name, context if name == "context" else 0) for name in NAMES}
    return fields | {"tied": c.get("tie_word_embeddings", tied)}


def _biases(attention: Any, mlp: Any = False, output: Any = None) -> Fields:
    output = attention if output is None else output
    return {"qkv_bias": bool(attention), "output_bias": bool(output), "mlp_bias": bool(mlp)}


def _window(layers: int, width: int | None, windowed: Iterable[bool], chunked: bool) -> Fields:
    """The Window that says of every layer whether it is windowed; a pattern that none says is
    refused.
    """
    wanted = list(windowed)
    if not width or not any(wanted):
        return {}
    every = wanted.index(False) + 1 if False in wanted else 0
    for window in (
        Window(width, full_every=every, chunked=chunked),
        Window(width, full_first=wanted.index(True), chunked=chunked),
    ):
        if [window.at(i) for i in range(layers)] == wanted:
            return {"window": window}
    raise InputError(
        "config: layer_types is not covered; expected every n-th layer, or the first ones, to see "
        "the whole sequence"
    )


def _sliding(c: Asked, fields: Fields, windowed: Callable[[int], bool], width: Any) -> Fields:
    """The window of types whose config lists `layer_types`, or leaves them to a rule of the type's
    own.
    """
    kinds, layers = c.get("layer_types"), fields["layers"]
    words = {"full_attention": False, "sliding_attention": True, "chunked_attention": True}
    if kinds is None:
        rule = [windowed(i) for i in range(layers)]
    else:
        rule = [words[one_of("config: layer_types", kind, words)] for kind in kinds]
    chunked = kinds is not None and "chunked_attention" in kinds
    return fields | _window(layers, width, rule, chunked)


def _experts(layers: int, has: Callable[[int], bool], **fields: Any) -> Fields:
    """The Experts that say of every layer whether it has any."""
    wanted = [has(i) for i in range(layers)]
    if True not in wanted:
        return {}
    first = wanted.index(True)
    step = wanted.index(True, first + 1) - first if wanted.count(True) > 1 else first + 1
    for dense, every in ((first, 1), (0, step), (first, step)):
        found = Experts(**fields, dense_layers=dense, every=every)
        if [found.at(i) for i in range(layers)] == wanted:
            return {"experts": found}
    raise InputError(
        "config: where experts are is not covered; expected them in every n-th layer behind the "
        "first dense ones"
    )


# --- the family of LLaMA: rotary positions, a gated MLP, no bias unless said ---


def _rotary(
    c: Asked, *, tied: bool = False, kv_heads: int = 0, head_dim: int = 0, norm: str = "rmsnorm"
) -> Fields:
    return _shape(c, tied=tied) | {
        "kv_heads": c.get("num_key_value_heads", kv_heads) or 0,
        "head_dim": c.get("head_dim", head_dim) or 0,
        "ffn_width": c.get("intermediate_size"),
        "gated": True,
        "positions": "rotary",
        "norm": norm,
        **_biases(False),
    }


def _llama(c: Asked, **options: Any) -> Fields:
    fields = _rotary(c, **options)
    return fields | _biases(c.get("attention_bias", False), c.get("mlp_bias", False))


def _smollm3(c: Asked) -> Fields:
    c.must("use_sliding_window", False)
    fields = _llama(c, tied=True, kv_heads=4)
    c.get("no_rope_layers"), c.get("no_rope_layer_interval"), c.get("sliding_window")
    return _sliding(c, fields, lambda i: False, None)


def _mistral(c: Asked) -> Fields:
    fields = _rotary(c, kv_heads=8)
    return _sliding(c, fields, lambda i: True, c.get("sliding_window", 4096))


def _mixtral(c: Asked) -> Fields:
    fields = _rotary(c, kv_heads=8)
    experts = {
        "routed": c.get("num_local_experts", 8),
        "active": c.get("num_experts_per_tok", 2),
        "width": fields["ffn_width"],
    }
    fields |= _experts(fields["layers"], lambda i: True, **experts)
    return _sliding(c, fields, lambda i: True, c.get("sliding_window"))


def _qwen_window(c: Asked, fields: Fields, windowed: Callable[[int], bool]) -> Fields:
    width = c.get("sliding_window", 4096)
    return _sliding(c, fields, windowed, width if c.get("use_sliding_window", False) else None)


def _qwen2(c: Asked) -> Fields:
    first = c.get("max_window_layers", 28)
    fields = _rotary(c, kv_heads=32) | _biases(True, output=False)
    return _qwen_window(c, fields, lambda i: i >= first)


def _qwen3(c: Asked) -> Fields:
    first = c.get("max_window_layers", 28)
    fields = _llama(c, kv_heads=32, head_dim=128) | {"query_key_norm": "head"}
    return _qwen_window(c, fields, lambda i: i >= first)


def _sparse_layers(c: Asked) -> Callable[[int], bool]:
    """Qwen's rule for the layers with experts."""
    step, dense = c.get("decoder_sparse_step", 1), c.get("mlp_only_layers") or []
    return lambda i: i not in dense and (i + 1) % step == 0


def _qwen2_moe(c: Asked) -> Fields:
    first, width = c.get("max_window_layers", 28), c.get("moe_intermediate_size", 1408)
    shared = c.get("shared_expert_intermediate_size", 5632)
    if shared % width:
        raise InputError(
            f"config: shared_expert_intermediate_size = {shared}: expected a multiple of "
            f"moe_intermediate_size = {width}"
        )
    experts = {
        "routed": c.get("num_experts", 60),
        "active": c.get("num_experts_per_tok", 4),
        "width": width,
        "shared": shared // width,
        "shared_gate": True,
    }
    fields = _rotary(c, kv_heads=16) | _biases(c.get("qkv_bias", True), output=False)
    fields |= _experts(fields["layers"], _sparse_layers(c), **experts)
    return _qwen_window(c, fields, lambda i: (i + 1) % 2 == 1 and i < first)


def _qwen3_moe(c: Asked) -> Fields:
    experts = {
        "routed": c.get("num_experts", None) or c.get("num_local_experts", 128),
        "active": c.get("num_experts_per_tok", 8),
        "width": c.get("moe_intermediate_size", 768),
    }
    fields = _llama(c, kv_heads=4) | {"query_key_norm": "head"}
    fields |= _experts(fields["layers"], _sparse_layers(c), **experts)
    c.get("max_window_layers")
    return _qwen_window(c, fields, lambda i: True)


def _gemma(c: Asked, **options: Any) -> Fields:
    c.must("use_bidirectional_attention", None, False)
    return _llama(c, tied=True, head_dim=256, **options)


def _gemma2(c: Asked) -> Fields:
    fields = _gemma(c, kv_heads=4) | {"block_norms": 4}
    return _sliding(c, fields, lambda i: (i + 1) % 2 > 0, c.get("sliding_window", 4096))


def _gemma3(c: Asked) -> Fields:
    fields = _gemma(c, kv_heads=4) | {"block_norms": 4, "query_key_norm": "head"}
    every = c.get("sliding_window_pattern", None) or c.get("_sliding_window_pattern", 6)
    return _sliding(c, fields, lambda i: (i + 1) % every > 0, c.get("sliding_window", 4096))


def _phi3(c: Asked) -> Fields:
    return _sliding(c, _rotary(c), lambda i: True, c.get("sliding_window"))


def _olmo(c: Asked) -> Fields:
    return _llama(c, norm="none")


def _olmo2(c: Asked) -> Fields:
    return _llama(c) | {"query_key_norm": "full"}


def _olmo3(c: Asked) -> Fields:
    return _sliding(c, _olmo2(c), lambda i: (i + 1) % 4 > 0, c.get("sliding_window", 4096))


def _olmoe(c: Asked) -> Fields:
    fields = _olmo2(c)
    experts = {
        "routed": c.get("num_experts", 64),
        "active": c.get("num_experts_per_tok", 8),
        "width": fields["ffn_width"],
    }
    return fields | _experts(fields["layers"], lambda i: True, **experts)


def _gpt_oss(c: Asked) -> Fields:
    fields = _rotary(c, kv_heads=8, head_dim=64)
    fields |= _biases(c.get("attention_bias", True), mlp=True) | {"attention_sinks": True}
    experts = {
        "routed": c.get("num_local_experts", 128),
        "active": c.get("num_experts_per_tok", 4) or c.get("experts_per_token"),
        "width": fields["ffn_width"],
        "router_bias": True,
    }
    c.get("experts_per_token"), c.get("initial_context_length")  # say again what others say
    fields |= _experts(fields["layers"], lambda i: True, **experts)
    return _sliding(c, fields, lambda i: (i + 1) % 2 > 0, c.get("sliding_window", 128))


def _llama4(c: Asked) -> Fields:
    fields = _llama(c, kv_heads=8, head_dim=128)
    c.get("use_qk_norm")  # divides by the length and has no weights
    step, every = c.get("interleave_moe_layer_step", 1), c.get("no_rope_layer_interval", 4)
    rotary = c.get("no_rope_layers") or [(i + 1) % every for i in range(fields["layers"])]
    sparse = c.get("moe_layers")
    experts = {
        "routed": c.get("num_local_experts", 16),
        "active": c.get("num_experts_per_tok", 1),
        "width": fields["ffn_width"],
        "shared": 1,
    }
    fields["ffn_width"] = c.get("intermediate_size_mlp", 16384)
    here = (lambda i: (i + 1) % step == 0) if sparse is None else (lambda i: i in sparse)
    fields |= _experts(fields["layers"], here, **experts)
    kinds = c.get("layer_types") or ["chunked_attention" if r else "full_attention" for r in rotary]
    chunked = [one_of("config: layer_types", k, KINDS) == KINDS[0] for k in kinds]
    return fields | _window(fields["layers"], c.get("attention_chunk_size", 8192), chunked, True)


KINDS = ("chunked_attention", "full_attention")


def _deepseek(c: Asked, *, v3: bool) -> Fields:
    latent = Latent(
        kv_rank=c.get("kv_lora_rank", 512),
        rope_dim=c.get("qk_rope_head_dim", 64),
        nope_dim=c.get("qk_nope_head_dim", 128),
        value_dim=c.get("v_head_dim", 128),
        query_rank=c.get("q_lora_rank", 1536) or 0,
    )
    c.must("mlp_bias", False)  # transformers gives it to shared experts and not to routed ones
    fields = _llama(c) | {"latent": latent, "kv_heads": 0, "head_dim": latent.value_dim}
    for key in ("qk_head_dim", "num_nextn_predict_layers", "num_mtp_layers"):
        c.get(key)
    c.must("moe_layer_freq", 1)
    dense = c.get("first_k_dense_replace", 3 if v3 else 0)
    experts = {
        "routed": c.get("n_routed_experts", 256 if v3 else 64),
        "active": c.get("num_experts_per_tok", 8 if v3 else None),
        "width": c.get("moe_intermediate_size", 2048 if v3 else 1407),
        "shared": c.get("n_shared_experts", 1 if v3 else 2),
        "router_bias": v3,
    }
    return fields | _experts(fields["layers"], lambda i: i >= dense, **experts)


# --- others with rotary positions ---


def _stablelm(c: Asked) -> Fields:
    fields = _rotary(c, kv_heads=32, norm="layernorm")
    fields |= _biases(c.get("use_qkv_bias", False), output=False)
    fields["query_key_norm"] = "heads" if c.get("qk_layernorm", False) else ""
    parallel = bool(c.get("use_parallel_residual", False))
    return fields | {"parallel_block": parallel, "block_norms": 1 if parallel else 2}


def _cohere(c: Asked) -> Fields:
    fields = _llama(c, tied=True, norm="layernorm-no-bias")
    fields["query_key_norm"] = "heads" if c.get("use_qk_norm", False) else ""
    return fields | {"parallel_block": True, "block_norms": 1}


def _cohere2(c: Asked) -> Fields:
    every, width = c.get("sliding_window_pattern", 4), c.get("sliding_window", 4096)
    return _sliding(c, _cohere(c), lambda i: (i + 1) % every > 0, width)


def _phi(c: Asked) -> Fields:
    norm = {"query_key_norm": "head" if c.get("qk_layernorm", False) else ""}
    fields = _rotary(c, norm="layernorm") | _biases(True, mlp=True) | norm
    return fields | {
        "query_key_norm_bias": True,
        "gated": False,
        "parallel_block": True,
        "block_norms": 1,
        "head_bias": True,
    }


def _persimmon(c: Asked) -> Fields:
    norm = {"query_key_norm": "head" if c.get("qk_layernorm", True) else ""}
    fields = _rotary(c, norm="layernorm") | _biases(True, mlp=True) | norm
    return fields | {"query_key_norm_bias": True, "gated": False}


def _starcoder2(c: Asked) -> Fields:
    bias = c.get("use_bias", True)
    fields = _rotary(c, tied=True, kv_heads=2, norm="layernorm") | _biases(bias, mlp=bias)
    return _sliding(c, fields | {"gated": False}, lambda i: True, c.get("sliding_window"))


def _gptj(c: Asked) -> Fields:
    return _shape(c, tied=False) | {
        "ffn_width": c.get("n_inner") or 0,
        "positions": "rotary",
        "block_norms": 1,
        "parallel_block": True,
        "head_bias": True,
        **_biases(False, mlp=True),
    }


def _gpt_neox(c: Asked) -> Fields:
    return _shape(c, tied=False) | {
        "ffn_width": c.get("intermediate_size", 24576),
        "positions": "rotary",
        "parallel_block": bool(c.get("use_parallel_residual", True)),
        **_biases(c.get("attention_bias", True), mlp=True),
    }


def _falcon(c: Asked) -> Fields:
    fields = _shape(c, tied=True)
    new, parallel = c.get("new_decoder_architecture", False), c.get("parallel_attn", True)
    shared = 1 if c.get("multi_query", True) else fields["heads"]
    keys, norms = c.get("num_kv_heads") or fields["heads"], c.get("num_ln_in_parallel_attn")
    two = not parallel or norms == 2 or (norms is None and new)
    bias = c.get("bias", False)
    return fields | {
        "kv_heads": keys if new else shared,
        "ffn_width": c.get("ffn_hidden_size") or 0,
        "positions": "alibi" if c.get("alibi", False) else "rotary",
        "parallel_block": bool(parallel),
        "block_norms": 2 if two else 1,
        **_biases(bias, mlp=bias),
    }


# --- learned positions, or distances in the scores ---


def _gpt2(c: Asked) -> Fields:
    return _shape(c, tied=True, context=1024) | {"ffn_width": c.get("n_inner") or 0}


def _gpt_bigcode(c: Asked) -> Fields:
    one = c.get("multi_query", True)
    c.get("num_key_value_heads")
    return _gpt2(c) | {"kv_heads": 1 if one else 0}


def _bloom(c: Asked) -> Fields:
    return _shape(c, tied=True) | {"positions": "alibi", "embedding_norm": True}


def _opt(c: Asked) -> Fields:
    fields, bias = _shape(c, tied=True), c.get("enable_bias", True)
    narrow = c.get("word_embed_proj_dim") or fields["width"]
    if narrow != fields["width"]:
        raise InputError(
            f"config: word_embed_proj_dim = {narrow}: an embedding narrower than the stream "
            f"(hidden_size = {fields['width']}) is not covered"
        )
    first, removed = c.get("do_layer_norm_before", True), c.get("_remove_final_layer_norm", False)
    return fields | {
        "ffn_width": c.get("ffn_dim", 3072),
        "position_rows": fields["context"] + 2,
        "norm": "layernorm" if c.get("layer_norm_elementwise_affine", True) else "none",
        "final_norm": bool(first and not removed),
        **_biases(bias, mlp=bias),
    }


def _mpt(c: Asked) -> Fields:
    attention = Asked(c.get("attn_config") or {})
    for key, only in (("attn_type", "multihead_attention"), ("qk_ln", False), ("alibi", True)):
        attention.must(key, only)
    c.must("no_bias", True)
    c.must("expansion_ratio", 4)
    for key in ("learned_pos_emb", "embedding_fraction", "norm_type"):
        c.get(key)  # without effect where positions are ALiBi's
    fields = _shape(c, tied=True) | {"positions": "alibi", "norm": "layernorm-no-bias"}
    return fields | _biases(False)


READERS: dict[str, Callable[[Asked], Fields]] = {
    "bloom": _bloom,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "deepseek_v2": lambda c: _deepseek(c, v3=False),
    "deepseek_v3": lambda c: _deepseek(c, v3=True),
    "falcon": _falcon,
    "gemma": lambda c: _gemma(c, kv_heads=16),
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "gptj": _gptj,
    "granite": _llama,
    "llama": _llama,
    "llama4_text": _llama4,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "mpt": _mpt,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo3,
    "olmoe": _olmoe,
    "opt": _opt,
    "persimmon": _persimmon,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "smollm3": _smollm3,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
