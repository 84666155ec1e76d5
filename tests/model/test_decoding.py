"""A decoder with caches gives the logits of the whole pass, and holds the bytes of the formula."""

from dataclasses import replace

import pytest
import torch
from small_decoders import KINDS, tiny

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import decode_time, inference
from mathlib.meters.flop import CORE, FlopMeter
from mathlib.model import gpt, modern
from mathlib.model.decoding import CachedHeads, Decoder, Kept, generate

WINDOW = {"window": specs.Window(6)}
NAMES = [*KINDS, "a window on every layer"]


def build(name):
    """A model in 64 bits, weights large enough that every token matters."""
    if name == "gpt":
        built = gpt.GPT(gpt.small(layers=2, width=32, context=24, vocab=97))
    else:
        built = modern.Modern(tiny(**(KINDS | {NAMES[-1]: WINDOW})[name]))
    with torch.no_grad():
        for weight in built.parameters():
            if weight.dim() > 1:
                weight.mul_(8)
    return built.double().eval()


@pytest.fixture(params=["gpt", *NAMES])
def built(request):
    return build(request.param)


TOKENS = torch.randint(97, (3, 24), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def whole(built, tokens=TOKENS):
    return built(tokens)


@pytest.mark.parametrize("pieces", [[24], [1] * 24, [9, 1, 1, 8, 1, 4]], ids=str)
def test_logits_are_those_of_the_whole_pass(built, pieces):
    decoder, wanted = Decoder(built), whole(built)
    found = torch.cat([decoder(piece) for piece in TOKENS.split(pieces, 1)], 1)
    assert torch.allclose(found, wanted, atol=1e-10) and decoder.past == 24
    assert wanted.std() > 0.1, "logits that differ from token to token"


def test_a_decoder_that_forgets_differs(built):
    decoder = Decoder(built)
    decoder(TOKENS[:, :-1])
    for layer in decoder.layers:
        layer.kept = [Kept(one.width) for one in layer.kept]
    assert not torch.allclose(decoder(TOKENS[:, -1:])[:, 0], whole(built)[:, -1], atol=1e-3)


def test_the_storage_held_is_the_formula(built):
    decoder = Decoder(built)
    for piece in TOKENS.split([7, 1, 1, 15], 1):
        decoder(piece)
        wanted = inference.kv_cache(
            built.model, tokens=decoder.past, sequences=3, bytes_per_element=8
        )
        assert decoder.nbytes == wanted.total


@pytest.mark.parametrize("name", ["gpt", "grouped", "latent", "latent, queries direct"])
def test_flop_of_a_step_are_the_formula(name):
    built = build(name)
    decoder = Decoder(built)
    decoder(TOKENS[:, :-1])
    with FlopMeter(built) as meter:
        decoder(TOKENS[:, -1:])
    wanted = decode_time.work(built.model, sequences=3, past=23)
    assert sum(meter.parts.values()) == wanted.total
    if not built.model.latent:  # there, unpacking goes on inside the core
        assert meter.parts[CORE] == wanted["cache"]


def test_a_view_would_keep_everything():
    """Without the copy a rolling buffer drops rows and keeps their bytes."""
    seen = torch.zeros(1, 1, 100, 8)
    assert seen[..., -6:, :].untyped_storage().nbytes() == 100 * 8 * 4
    rolling = Kept(6)
    rolling.add(seen)
    assert rolling.nbytes == 6 * 8 * 4 and rolling.add(seen[..., :1, :]).shape[-2] == 7


@pytest.mark.parametrize("name", ["gpt", "grouped", "latent"])
def test_back_to_an_earlier_token(name):
    built = build(name)
    decoder = Decoder(built)
    decoder(TOKENS)
    decoder.rewind(10)
    again = decoder(TOKENS[:, 10:])
    assert torch.allclose(again, whole(built)[:, 10:], atol=1e-10)
    assert decoder.nbytes == bytes_of_all(built)


def bytes_of_all(built):
    return inference.kv_cache(built.model, tokens=24, sequences=3, bytes_per_element=8).total


def test_a_rolling_buffer_cannot_go_back():
    decoder = Decoder(build(NAMES[-1]))
    decoder(TOKENS)
    with pytest.raises(InputError, match="rolling buffer"):
        decoder.rewind(10)


def test_writing_with_the_cache_and_without(built):
    start = TOKENS[:, :5]
    with_cache = generate(built, start, 6)
    without = start
    for _ in range(6):
        without = torch.cat([without, whole(built, without)[:, -1:].argmax(-1)], 1)
    assert torch.equal(with_cache, without) and with_cache.shape == (3, 11)


def test_latents_are_not_unpacked():
    """The cache's rows are as narrow as the latent, whatever the number of heads."""
    wide = tiny(**KINDS["latent"] | {"heads": 8, "kv_heads": 8})
    narrow = tiny(**KINDS["latent"])
    sizes = []
    for model in (wide, narrow):
        decoder = Decoder(modern.Modern(replace(model)))
        decoder(TOKENS)
        sizes.append(decoder.nbytes)
    assert sizes[0] == sizes[1]


def test_a_layer_alone():
    attention = gpt.Attention(gpt.small(), "plain", "none")
    x = torch.randn(2, 9, 64)
    layer = CachedHeads(attention)
    with torch.no_grad():
        found = torch.cat([layer(x[:, :5]), layer(x[:, 5:])], 1)
        assert torch.allclose(found, attention(x), atol=1e-6)
