"""transformers' own classes in miniature: what their caches and states hold, what a token costs.

GPT-2 and Llama keep keys and values, DeepSeek-V3 latents, RWKV-4 a state.
"""

from functools import cache
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from mathlib.meters.flop import FlopMeter
from mathlib.model import data
from mathlib.trials import inference
from mathlib.trials.inference import LATENT, TEXT, VOCAB

LLAMA: dict[str, Any] = {
    **{"hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 3, "head_dim": 16},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB},
    **{"bos_token_id": 0, "eos_token_id": 0},
}
RANKS: dict[str, Any] = {
    **{"kv_lora_rank": LATENT.kv_rank, "qk_rope_head_dim": LATENT.rope_dim},
    **{"qk_nope_head_dim": LATENT.nope_dim, "v_head_dim": LATENT.value_dim},
    **{"q_lora_rank": LATENT.query_rank, "num_key_value_heads": 4, "first_k_dense_replace": 3},
}
GPT2: dict[str, Any] = {
    **{"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": VOCAB},
    **{"bos_token_id": 0, "eos_token_id": 0},
}
RWKV: dict[str, Any] = {
    **{"hidden_size": 64, "attention_hidden_size": 64, "intermediate_size": 256},
    **{"context_length": 64, "num_hidden_layers": 2, "vocab_size": VOCAB},
}
SEVENTY: dict[str, Any] = {  # Llama 2 70B
    **{"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80},
    **{"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000},
}
SAME = {"GPT-2": "each head its own", "Llama": "2 queries share", "DeepSeek-V3": "latent"}
LINE = data.batch(1, 64)[0]


@cache
def model(name: str) -> Any:
    """One of the four classes, with random weights."""
    torch.manual_seed(0)
    latent = {k: v for k, v in LLAMA.items() if k != "head_dim"} | RANKS
    found = {
        "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)),
        "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA)),
        "DeepSeek-V3": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**latent)),
        "RWKV": lambda: hf.RwkvForCausalLM(hf.RwkvConfig(**RWKV)),
    }
    return found[name]().eval()


def tensors(kept: Any) -> list[Tensor]:
    """What a cache or a state consists of."""
    if isinstance(kept, list):
        return kept
    return [rows for layer in kept.layers for rows in (layer.keys, layer.values)]


@torch.no_grad()
def held(name: str, tokens: Tensor = TEXT, dtype: torch.dtype = torch.float32) -> int:
    """Bytes that the class keeps after these tokens."""
    key = "state" if name == "RWKV" else "past_key_values"
    one = model(name).to(dtype)
    found = sum(t.nbytes for t in tensors(one(tokens, use_cache=True)[key]))
    one.float()
    return found


def caches() -> dict[str, tuple[float, int]]:
    """Bytes of a cache by the formula and in storage: of our models, and of transformers'."""
    pairs = {f"ours, {k}": inference.bytes_kept(shape) for k, shape in inference.KINDS.items()}
    for name, kind in SAME.items():
        formula = inference.predicted(inference.KINDS[kind])
        pairs[f"transformers, {name}"] = formula, held(name)
    return pairs


def by_length(name: str, lengths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)) -> dict[int, int]:
    """Bytes that the class keeps after so many tokens of one line."""
    return {s: held(name, LINE[:, :s]) for s in lengths}


def a_token(name: str) -> int:
    """Bytes that one more token adds to a cache in bf16."""
    nine, eight = (held(name, TEXT[:1, :s], torch.bfloat16) for s in (9, 8))
    return nine - eight


@torch.no_grad()
def flop(name: str, tokens: int = 64) -> list[int]:
    """FLOP of the matmuls for each token of a line, one fed after the other."""
    key, kept, work = "state" if name == "RWKV" else "past_key_values", None, []
    for token in LINE[0, :tokens]:
        with FlopMeter(model(name)) as count:
            out = model(name)(token[None, None], use_cache=True, **{key: kept})
        kept = out[key]
        work.append(sum(count.parts.values()))
    return work


@cache
def seventy() -> int:
    """Parameters of transformers' class in the shape of Llama 2 70B, whose tensors stay empty."""
    with torch.device("meta"):
        found = hf.LlamaForCausalLM(hf.LlamaConfig(**SEVENTY))
    return sum(w.numel() for w in found.parameters())
