"""What a model with adapters keeps and holds: by formula, and measured, byte for byte."""

from itertools import combinations

import pytest
import torch

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import activations, adapters
from mathlib.meters import saved
from mathlib.model import llama, lora

SHAPE = specs.find_model("llama3-8b").but(
    **{"name": "small", "layers": 3, "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16},
    **{"vocab": 100, "context": 16, "ffn_width": 96},
)
SOME = [t for n in range(1, 8) for t in combinations(adapters.TARGETS, n)][::4]


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({}, {}),
        ({"dropout": 0.1}, {"dropout": True}),
        ({"dtype": torch.double}, {"adapter_bytes": 8}),
        ({"magnitude": True}, {"magnitude": True}),
        (
            {"magnitude": True, "dtype": torch.double, "dropout": 0.1},
            {"magnitude": True, "adapter_bytes": 8, "dropout": True},
        ),
    ],
    ids=["plain", "dropout", "wider adapters", "magnitudes", "wider magnitudes"],
)
def test_a_model_keeps_what_the_formula_says_byte_for_byte(how, asked):
    rows = torch.randint(100, (2, 17))
    for i, targets in enumerate(SOME):
        net = lora.adapt(llama.Llama(SHAPE), rank=4, targets=targets, quantised=i % 2 > 0, **how)
        kept = saved.saved_bytes(lambda net=net: net.loss(rows[:, :-1], rows[:, 1:]), net)
        given = {"micro_batch": 2, "bytes_per_element": 4, "small_tensors": True, **asked}
        told = adapters.activations(SHAPE, rank=4, targets=targets, **given)
        assert kept == told.total, targets


@pytest.mark.parametrize("tokens", [16, 256])
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("magnitude", [False, True])
def test_the_peak_of_a_step_is_the_formula_s(magnitude, quantised, tokens):
    shape = SHAPE.but(vocab=1000, context=tokens, ffn_width=192)
    kind = {"quantised": quantised, "magnitude": magnitude}
    net = lora.adapt(llama.Llama(shape), rank=4, targets=adapters.TARGETS, **kind)
    own = [p for p in net.parameters() if p.requires_grad]
    optimizer, rows = torch.optim.AdamW(own, foreach=False), torch.randint(1000, (2, tokens + 1))

    def step():
        optimizer.zero_grad(set_to_none=False)
        net.loss(rows[:, :-1], rows[:, 1:]).backward()
        optimizer.step()

    step()
    with saved.Storages(net) as meter:
        states = [t for of in optimizer.state.values() for t in of.values()]
        for tensor in (*net.buffers(), *states, *(p.grad for p in own)):
            meter.follow(tensor)
        step()
    how = {"micro_batch": 2, "bytes_per_element": 4, "small_tensors": True}
    told = adapters.training(shape, rank=4, recipe="adam-fp32", **kind, **how)
    assert told.total <= meter.peak < 1.002 * told.total, "a table of 16 numbers, steps' counts"


def test_what_is_frozen_keeps_no_input_of_its_own():
    how = {"tokens": 4096, "targets": adapters.TARGETS}
    full = activations.layer("llama3-8b", tokens=4096)
    less = adapters.layer("llama3-8b", rank=16, **how | {"targets": ("query", "value")})
    more = adapters.layer("llama3-8b", rank=16, **how)
    assert less.total < full.total <= more.total, "adapters on all matrices save nothing"
    assert less.total > 0.7 * full.total, "what norms, attention and gates need stays"


def test_lora_on_long_sequences_is_activations_and_qlora_does_not_help_there():
    short, long = (
        adapters.training("llama3-8b", rank=64, tokens=n, recompute="full") for n in (256, 8192)
    )
    packed = adapters.training("llama3-8b", rank=64, tokens=8192, recompute="full", quantised=True)
    fixed = short.amount("frozen weights") + short.amount("adapters")
    assert fixed > 0.9 * short.total and fixed < 0.7 * long.total
    assert packed.amount("activations") == long.amount("activations")
    fused = adapters.training("llama3-8b", rank=64, tokens=8192, recompute="full", fused_loss=True)
    assert "recomputed layer" in fused or fused.total < long.total


def test_models_that_are_not_counted_are_refused_with_the_reason():
    with pytest.raises(InputError, match="gated = False"):
        adapters.layer("gpt3-175b", rank=4)
    with pytest.raises(InputError, match="experts"):
        adapters.layer("mixtral-8x7b", rank=4)
    with pytest.raises(InputError, match="targets"):
        adapters.layer("llama3-8b", rank=4, targets=("quary",))


def test_shards_are_a_nth_of_what_is_kept_and_bits_in_integers_stay():
    how = {"rank": 16, "tokens": 2048, "recompute": "full"}
    one, two = (adapters.sharded("llama3-8b", devices=n, **how) for n in (1, 2))
    assert one.total == adapters.training("llama3-8b", **how).total
    assert two.amount("frozen weights") == one.amount("frozen weights") / 2
    assert two.amount("adapters") == one.amount("adapters") / 2
    assert two.amount("activations") == one.amount("activations")
    body = sum(m.parameters for m in params.matrices("llama3-8b")[:-1])
    assert two["gathered layer"] == 2 * body / 32
    assert two["gathered ends"] == 2 * (params.total("llama3-8b") - body)
    assert "gathered ends" not in one and "gathered layer" not in one
    packed, whole = (
        adapters.sharded("llama3-8b", devices=8, quantised=True, whole_bits=w, **how)
        for w in (False, True)
    )
    assert 8 * packed["matrices in 4 bits"] == whole["matrices in 4 bits"] == body / 2
    assert "gathered layer" not in whole and packed.amount("gathered layer") > body / 2 / 32
    lora = adapters.sharded("llama3-8b", devices=8, **how)
    assert whole.total > lora.total > packed.total, "from four devices on"
