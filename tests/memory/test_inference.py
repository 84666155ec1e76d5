"""The cache of keys and values, layer by layer and token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import inference
from mathlib.specs import Window

WINDOWS = st.builds(Window, st.integers(1, 9), st.integers(0, 3), st.integers(0, 4), st.booleans())
SMALL = specs.Model(
    "small", layers=5, width=64, heads=8, kv_heads=4, vocab=100, context=32, positions="rotary"
)


def test_the_cache_by_hand():
    """5 layers, 4 heads of 8 numbers each for keys and for values."""
    one = inference.kv_cache(SMALL)
    assert dict(one.items()) == {"keys": 2 * 5 * 4 * 8, "values": 2 * 5 * 4 * 8}
    many = inference.kv_cache(SMALL, tokens=7, sequences=3, bytes_per_element=1, tensor=2)
    assert dict(many.items()) == dict.fromkeys(("keys", "values"), 5 * 7 * 3 * 2 * 8)


def test_a_latent_is_kept_whole_by_every_device():
    latent = specs.Latent(kv_rank=32, rope_dim=8, nope_dim=16, value_dim=16)
    model = SMALL.but(heads=12, head_dim=8, latent=latent)
    for t in (1, 6):
        kept = inference.kv_cache(model, tokens=3, sequences=2, tensor=t)
        assert dict(kept.items()) == {"latent": 2 * 30 * 32, "rotary key": 2 * 30 * 8}


@given(st.integers(1, 40), WINDOWS)
def test_a_rolling_buffer_holds_the_newest_tokens(tokens, window):
    """Counted by feeding one token after the other to buffers that drop the oldest."""
    model = SMALL.but(window=window)
    held = 0
    for layer in range(model.layers):
        full = layer < window.full_first or (
            window.full_every and layer % window.full_every == window.full_every - 1
        )
        buffer = []
        for token in range(tokens):
            buffer.append(token)
            if not full:
                buffer = buffer[-window.width :]
        held += len(buffer)
    cache = inference.kv_cache(model, tokens=tokens)
    assert cache["keys"] == cache["values"] == 2 * held * 4 * 8
    everything = inference.kv_cache(model, tokens=tokens, rolling=False)
    assert everything.total == inference.kv_cache(SMALL, tokens=tokens).total


def test_mistral_keeps_an_eighth_at_32768_tokens():
    """Jiang et al. 2023, section 2: the rolling buffer."""
    rolling = inference.kv_cache("mistral-7b", tokens=32768).total
    assert rolling == 2**29 and inference.kv_cache("mixtral-8x7b", tokens=32768).total == 2**32
    assert inference.kv_cache("mistral-7b", tokens=32768, rolling=False).total == 8 * rolling


def test_heads_are_shared_out_whole_or_copied():
    one, four, eight = (inference.kv_cache(SMALL, tensor=t).total for t in (1, 4, 8))
    assert one == 4 * four and four == eight, "two devices keep the same head"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: inference.kv_cache("llama3-8b", tensor=3), "tensor = 3: does not divide heads"),
        (lambda: inference.kv_cache("llama3-8b", tensor=1000), "tensor = 1000"),
        (
            lambda: inference.kv_cache(SMALL.but(heads=12, head_dim=8, kv_heads=4), tensor=6),
            "tensor = 6: expected a divisor or a multiple of kv_heads = 4",
        ),
        (lambda: inference.kv_cache("gpt2", tokens=1025), "tokens = 1025: gpt2 has learned"),
        (lambda: inference.kv_cache("gpt2", rolling="no"), "rolling = 'no'"),
    ],
)
def test_bad_input_names_the_argument(call, said):
    with pytest.raises(InputError, match=said):
        call()


def test_the_crossover_as_the_weights():
    weights = 2 * params.count("llama2-7b").total
    tokens = inference.tokens_within("llama2-7b", size=weights)
    assert inference.kv_cache("llama2-7b", tokens=tokens).total <= weights
    assert inference.kv_cache("llama2-7b", tokens=tokens + 1).total > weights


@given(st.floats(1e3, 1e9), st.integers(1, 40))
def test_most_tokens_within_a_size(size, sequences):
    most = inference.tokens_within(SMALL, size=size, sequences=sequences)
    assert most == size // (2 * 2 * 5 * 4 * 8 * sequences)


def test_a_window_may_never_fill_it():
    everywhere = SMALL.but(window=Window(10))
    full = inference.kv_cache(everywhere, tokens=10).total
    assert inference.tokens_within(everywhere, size=full) == float("inf")
    assert inference.tokens_within(everywhere, size=full - 1) == 9


@given(st.lists(st.integers(1, 500), min_size=1, max_size=9), st.integers(1, 64))
def test_blocks_counted_one_token_after_the_other(tokens, block):
    held = 0
    for length in tokens:
        for number in range(length):
            held += block if number % block == 0 else 0
    rows = inference.paged(tokens=tokens, block=block)
    assert rows.total == held and rows["used"] == sum(tokens)
    assert rows["empty"] < block * len(tokens)


def test_rwkv_14b_carries_four_megabytes():
    """40 layers of 5120: 5 vectors of 4 bytes each, whatever was read."""
    model = SMALL.but(layers=40, width=5120, heads=40, kv_heads=40, head_dim=128)
    assert inference.recurrent_state(model).total == 5 * 40 * 5120 * 4
