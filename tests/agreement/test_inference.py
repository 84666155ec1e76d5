"""Formula beside run: bytes of transformers' own caches, FLOP and bytes of a decoding step."""

import pytest
import torch
from small_decoders import KINDS, tiny

from mathlib import specs
from mathlib.memory import decode_time, inference
from mathlib.meters.flop import FlopMeter
from mathlib.model import modern
from mathlib.model.decoding import Decoder

transformers = pytest.importorskip("transformers")
TOKENS = torch.randint(97, (2, 20), generator=torch.Generator().manual_seed(0))
LLAMA = {
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 97,
    "max_position_embeddings": 64,
}


def held(model):
    """Bytes of the storage behind the cache that transformers fills, token by token."""
    cache = None
    with torch.no_grad():
        for piece in TOKENS.split([11] + [1] * 9, 1):
            cache = model(piece, past_key_values=cache, use_cache=True).past_key_values
    rows = [rows for layer in cache.layers for rows in (layer.keys, layer.values)]
    return sum(one.numel() * one.element_size() for one in rows)


def formula(model, **changes):
    return inference.kv_cache(model, tokens=20, sequences=2, bytes_per_element=4, **changes).total


def test_a_sliding_window_keeps_one_token_less_than_it_sees():
    """Their buffer holds the w - 1 tokens that the next one looks back to; ours the newest w."""
    config = transformers.MistralConfig(**LLAMA, sliding_window=6)
    theirs = held(transformers.MistralForCausalLM(config))
    assert theirs == formula(tiny(window=specs.Window(5)))


@pytest.mark.parametrize("kind", ["grouped", "latent"])
def test_a_step_reads_its_weights_and_its_cache(kind):
    """Every tensor that a matmul of the step reads, counted once."""
    model = tiny(**KINDS[kind])
    built = modern.Modern(model)
    decoder = Decoder(built)
    decoder(TOKENS[:, :-1])
    decoder(TOKENS[:, -1:])
    linear = [m.weight for m in built.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(w.numel() for w in linear)
    read = decode_time.bytes_read(
        model, sequences=2, past=19, bytes_per_parameter=4, bytes_per_element=4
    )
    assert read["weights"] == 4 * weights and read["cache"] == decoder.nbytes


def test_work_of_a_step():
    built = modern.Modern(tiny())
    decoder = Decoder(built)
    decoder(TOKENS[:, :-1])
    with FlopMeter(built) as meter:
        decoder(TOKENS[:, -1:])
    assert sum(meter.parts.values()) == decode_time.work(tiny(), sequences=2, past=19).total
