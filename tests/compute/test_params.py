"""Parameter counts against an enumeration of every tensor, and what the shorthands leave out."""

import pytest
from architectures import models, size, tensors
from hypothesis import given, settings

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops, params

NAMES = list(specs.table("models"))


@given(models())
@settings(max_examples=600)
def test_the_count_is_the_sum_over_the_checkpoint(model):
    assert params.total(model) == sum(map(size, tensors(model).values()))


@given(models())
@settings(max_examples=200)
def test_every_part_is_the_sum_over_its_tensors(model):
    parts, found = params.count(model), tensors(model)

    def summed(word):
        return sum(size(shape) for name, shape in found.items() if word(name))

    assert parts["embedding"] == summed(lambda n: n == "embedding")
    assert parts["head"] == summed(lambda n: n.startswith("head"))
    assert parts.amount("norms") == summed(lambda n: "norm" in n)
    assert parts["positions"] == summed(lambda n: n == "positions" or n.endswith((".u", ".v")))
    for group in ("mlp", "experts", "shared", "router"):
        name = "shared experts" if group == "shared" else group
        assert (parts.amount(name) if name in parts else 0) == summed(
            lambda n, group=group: f".{group}." in n
        )


@given(models())
@settings(max_examples=200)
def test_active_is_the_checkpoint_without_the_experts_not_visited(model):
    visited = {
        name: shape
        for name, shape in tensors(model).items()
        if not name.endswith("router.bias")
        and not (".experts." in name and int(name.split(".")[3]) >= model.experts.active)
    }
    everything = sum(map(size, visited.values()))
    table, head = (
        model.padded_vocab * model.width,
        model.padded_vocab * (model.width + model.head_bias),
    )
    assert params.active(model).total == everything
    assert params.active(model, embeddings="head").total == everything - (
        0 if model.tied else table
    )
    assert params.active(model, embeddings="none").total == everything - table - (
        head if not model.tied else model.head_bias * model.padded_vocab
    )
    assert params.active(model).total <= params.total(model)


def test_every_known_model_against_its_tensors():
    for name in NAMES:
        model = specs.find_model(name)
        one, two = (sum(map(size, tensors(model.but(layers=n)).values())) for n in (4, 5))
        assert params.total(model) == one + (model.layers - 4) * (two - one)


def test_gpt2s_closed_form():
    L, h, V, s = 12, 768, 50257, 1024
    assert params.total("gpt2") == V * h + s * h + L * (12 * h**2 + 13 * h) + 2 * h == 124_439_808


def test_what_is_no_embedding():
    gpt2 = specs.find_model("gpt2")
    assert params.non_embedding("gpt2") == 85_056_000
    assert params.non_embedding("gpt2", without=("positions",)) == params.total("gpt2") - 1024 * 768
    assert params.non_embedding("gpt2", without=()) == params.total("gpt2")
    assert params.non_embedding(
        gpt2.but(norm="none", qkv_bias=False, output_bias=False, mlp_bias=False)
    ) == params.shorthand(layers=12, width=768)
    with pytest.raises(InputError, match="without = 'heads': did you mean head"):
        params.non_embedding("gpt2", without=("heads",))


def test_a_gated_mlp_of_eight_thirds_is_no_larger_than_a_plain_one():
    llama = specs.find_model("llama-7b")
    plain = llama.but(gated=False, ffn_width=4 * llama.width)
    assert params.count(llama).amount("mlp") == pytest.approx(
        params.count(plain).amount("mlp"), rel=0.01
    )
    assert params.count(llama).amount("mlp") == 3 * 32 * 4096 * 11008


def test_eight_times_seven_is_not_fifty_six():
    parts = params.count("mixtral-8x7b")
    assert 46e9 < parts.total < 47e9 and parts.share("experts") > 0.96
    one_expert = specs.find_model("mixtral-8x7b").but(
        experts=specs.Experts(routed=1, active=1, width=14336)
    )
    assert params.active(one_expert).total == params.total(one_expert)


def test_what_a_token_meets_is_twice_over_the_forward_pass():
    for name in NAMES:
        forward = flops.forward(name, tokens=1)
        core = forward["attention scores"] + forward["attention values"]
        assert 2 * params.met(name) == forward.total - core


def test_what_a_token_meets_of_a_gated_grouped_model():
    m = specs.find_model("llama3-8b")
    L, h, a, k, d, f = m.layers, m.width, m.heads, m.kv_heads, m.head_dim, m.ffn_width
    assert params.met(m) == L * (2 * h * d * (a + k) + 3 * h * f) + h * m.vocab
    norms = params.count(m).amount("norms")
    assert params.met(m) == params.active(m, embeddings="head").total - norms


def test_lora_grows_with_the_rank_and_names_its_matrices():
    assert (
        params.lora("gpt3-175b", rank=8).total
        == 2 * params.lora("gpt3-175b", rank=4).total
        == 96 * 2 * 8 * 2 * 12288
    )
    everywhere = tuple(m.name for m in params.matrices("gpt2")[:-1])
    assert params.lora("gpt2", rank=1, targets=everywhere).total == 12 * (4 * 2 * 768 + 2 * 5 * 768)
    with pytest.raises(InputError, match="targets = 'queri': did you mean query"):
        params.lora("gpt2", rank=1, targets=("queri",))


def test_the_tensors_of_every_known_model_are_all_its_parameters():
    for name in NAMES:
        found = params.tensors(name)
        assert sum(size * n for size, n in found.items()) == params.total(name)


def test_gpt_neox_has_532_tensors_as_its_checkpoint_without_rotary_buffers():
    found = params.tensors("gpt-neox-20b")
    assert sum(found.values()) == 44 * 12 + 4
