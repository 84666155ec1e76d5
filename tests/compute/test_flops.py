"""FLOP against a list of the matmuls a program does, and the laws between them."""

import math
from collections import Counter

import pytest
from architectures import matmuls, models
from hypothesis import given, settings
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops, params
from mathlib.specs import Model

FEW = st.integers(1, 4)
PARTS = {
    "attention": "attention projections",
    "scores": "attention scores",
    "values": "attention values",
    "mlp": "mlp",
    "router": "router",
    "experts": "experts",
    "shared": "shared experts",
    "head": "vocabulary",
}


def added(done, times=lambda part: 1):
    """FLOP of a list of matmuls by the library's names for the parts."""
    found = Counter()
    for part, m, k, n in done:
        found[PARTS[part]] += times(part) * 2 * m * k * n
    return found


def amounts(parts):
    return Counter({name: parts.amount(name) for name in parts if parts.amount(name)})


@given(models(), FEW, st.integers(1, 5), st.integers(0, 3), st.booleans())
@settings(max_examples=400)
def test_forward_is_the_sum_over_its_matmuls(model, sequences, tokens, past, causal):
    counted = flops.forward(model, sequences=sequences, tokens=tokens, past=past, causal=causal)
    done = matmuls(model, sequences, tokens, past, causal)
    assert amounts(counted) == added(done)
    assert counted.total == sum(2 * m * k * n for _, m, k, n in done) and type(counted.total) is int


@given(models(), FEW, st.integers(1, 5), st.booleans(), st.booleans())
@settings(max_examples=300)
def test_backward_is_a_matmul_for_every_gradient(model, sequences, tokens, causal, frozen):
    """dA = dC B^T is (m n k), dB = A^T dC is (k m n): each as large as the matmul; a frozen weight
    has no dB.
    """
    done = matmuls(model, sequences, tokens, causal=causal)
    gradients = [
        (part, *shape)
        for part, m, k, n in done
        for shape in [(m, n, k)]
        + ([] if frozen and part not in ("scores", "values") else [(k, m, n)])
    ]
    counted = flops.backward(
        model, sequences=sequences, tokens=tokens, causal=causal, frozen=frozen
    )
    assert amounts(counted) == added(gradients)
    flash = flops.backward(
        model,
        sequences=sequences,
        tokens=tokens,
        causal=causal,
        frozen=frozen,
        attention_backward=2.5,
    )
    assert amounts(flash) == added(
        gradients + [one for one in done if one[0] == "scores"]
    )  # scores computed again


@given(models(), FEW, st.integers(1, 5), st.booleans())
@settings(max_examples=200)
def test_recomputation_does_again_what_it_says(model, sequences, tokens, causal):
    done = matmuls(model, sequences, tokens, causal=causal)

    def again(recompute, convention="counted"):
        return flops.recomputation(
            model,
            recompute=recompute,
            sequences=sequences,
            tokens=tokens,
            causal=causal,
            convention=convention,
        )

    attention = [one for one in done if one[0] in ("scores", "values")]
    assert amounts(again("none")) == Counter() and again("none").total == 0
    assert amounts(again("selective")) == added(attention)
    assert again("selective", "korthikanti").total == 3 * again("selective").total
    assert (
        amounts(again("full"))
        == amounts(again("full", "korthikanti"))
        == added([o for o in done if o[0] != "head"])
    )


@given(models(), st.integers(1, 40), st.integers(1, 9))
@settings(max_examples=200)
def test_twice_the_batch_is_twice_the_flop_in_every_part(model, sequences, tokens):
    one, many = (
        flops.training(model, tokens=tokens),
        flops.training(model, sequences=sequences, tokens=tokens),
    )
    assert [n for *_, n in many.rows()] == [sequences * n for *_, n in one.rows()]


@given(models(), st.integers(1, 50))
@settings(max_examples=200)
def test_a_causal_mask_keeps_s_plus_1_over_2s_of_attention_and_nothing_else_changes(model, s):
    model = model.but(window=None)
    full, causal = flops.forward(model, tokens=s), flops.forward(model, tokens=s, causal=True)
    for name in full:
        if name in ("attention scores", "attention values"):
            assert causal[name] * 2 * s == full[name] * (s + 1)
        else:
            assert causal.amount(name) == full.amount(name)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_pairs_of_a_window_counted_one_by_one(s, c, w, chunked):
    """A query sees a key that is not newer and, sliding, less than w older or, chunked, in its own
    chunk.
    """
    seen = [
        j // w == i // w if chunked else i - j < w
        for i in range(c, c + s)
        for j in range(c + s)
        if j <= i
    ]
    window = specs.Window(w, chunked=chunked)
    assert flops.attention_pairs(tokens=s, past=c, causal=True, window=window) == sum(seen)


def test_windows_leave_out_a_quarter_of_mistrals_pairs():
    """At 8192 tokens a window of 4096 keeps 3/4 of a causal mask's pairs; Gemma 2 on half its
    layers.
    """
    for name, share in (("mistral-7b", 0.75), ("gemma2-9b", 0.875)):
        model = specs.find_model(name)
        bare = flops.forward(model.but(window=None), tokens=8192, causal=True)
        kept = flops.forward(model, tokens=8192, causal=True)["attention scores"]
        assert kept / bare["attention scores"] == pytest.approx(share, abs=1e-4)


def test_learned_positions_end_where_the_table_ends():
    assert flops.forward("gpt2", tokens=1000, past=24)
    for asked in ({"tokens": 1025}, {"tokens": 1000, "past": 25}):
        with pytest.raises(InputError, match="tokens = .*: gpt2 has learned positions.* 1024"):
            flops.forward("gpt2", **asked)
    assert flops.forward("llama-7b", tokens=10**6), "a rotation has no last row"


@given(models(), st.integers(1, 8), st.integers(0, 4))
@settings(max_examples=200)
def test_decoding_token_by_token_does_what_one_causal_pass_does(model, s, past):
    at_once = flops.forward(model, tokens=s, past=past, causal=True)
    one_by_one = [flops.forward(model, tokens=1, past=past + i) for i in range(s)]
    assert {name: at_once.amount(name) for name in at_once} == {
        name: sum(step.amount(name) for step in one_by_one) for name in at_once
    }


@given(models(), st.integers(1, 6))
@settings(max_examples=200)
def test_weights_give_2_flop_a_token_forward_and_4_backward(model, s):
    """6 N: true of every matrix, for the N that a token is multiplied with."""
    N = sum(m.layers * m.used * m.inputs * m.outputs for m in params.matrices(model))
    attention = ("attention scores", "attention values")
    for passed, factor in (
        (flops.forward(model, tokens=s), 2),
        (flops.backward(model, tokens=s), 4),
    ):
        assert passed.total - sum(passed.amount(name) for name in attention) == factor * N * s


@given(models(), st.integers(1, 9), st.sampled_from(["none", "selective", "full"]))
@settings(max_examples=100)
def test_a_run_is_its_steps_and_a_token_its_share(model, s, recompute):
    step = flops.training(model, tokens=s, sequences=3, recompute=recompute)
    assert step.total == sum(
        step.amount(phase) for phase in ("forward", "backward", "recomputation")
    )
    whole = flops.run(model, total_tokens=300 * s, tokens=s, recompute=recompute)
    assert whole.total == pytest.approx(100 * step.total)
    assert flops.per_token(model, tokens=s, recompute=recompute) * 3 * s == pytest.approx(
        step.total
    )


def test_gpt3_by_6nd_and_by_its_matmuls():
    """3.14e23 leaves out attention and multiplies the embeddings: the two errors nearly cancel."""
    six = flops.six_nd(parameters=174.6e9, tokens=300e9)
    assert f"{six:.3g}" == "3.14e+23" and six == pytest.approx(3640 * 8.64e19, rel=1e-3)
    gpt3 = specs.find_model("gpt3-175b")
    assert flops.run(gpt3, total_tokens=300e9).total / six == pytest.approx(1.0267, abs=1e-3)
    assert flops.run(gpt3, total_tokens=300e9, causal=True).total / six == pytest.approx(
        1.0132, abs=1e-3
    )


def test_the_vocabulary_of_gpt2_is_27_percent_of_its_forward():
    assert flops.forward("gpt2").share("vocabulary") == pytest.approx(0.271, abs=5e-4)
    assert flops.forward("gpt3-175b").share("vocabulary") < 0.004


def test_full_recomputation_is_8nd_of_the_layers():
    bare = Model(
        "bare",
        96,
        12288,
        96,
        1,
        2048,
        norm="none",
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
    )
    body = params.shorthand(layers=96, width=12288)
    per_token = flops.per_token(bare, tokens=1, recompute="full")
    assert per_token == pytest.approx(8 * body, rel=1e-4)
    assert flops.six_nd(parameters=body, tokens=1, multiplier=8) == 8 * body


def test_grouped_heads_save_projections_and_no_score():
    grouped, whole = specs.find_model("llama3-8b"), specs.find_model("llama3-8b").but(kv_heads=32)
    few, many = flops.forward(grouped), flops.forward(whole)
    assert (
        few["attention scores"] == many["attention scores"]
        and few["mlp"].total == many["mlp"].total
    )
    assert many["attention projections"]["key"] == 4 * few["attention projections"]["key"]


def test_attention_overtakes_the_rest_at_long_context():
    llama = specs.find_model("llama2-7b")
    share = [
        flops.forward(llama, tokens=s).share("attention scores") for s in (2**10, 2**14, 2**18)
    ]
    assert share == sorted(share) and share[0] < 0.02 < 0.4 < share[2]
    assert math.isclose(flops.per_token(llama, tokens=2**12), flops.per_token(llama))
