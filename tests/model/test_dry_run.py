"""A step on shapes alone counts what a real one counts."""

import pytest

from mathlib import specs
from mathlib.meters import flop
from mathlib.model import data, dry_run, gpt

MODEL = gpt.small(vocab=len(data.vocabulary()))
TOKENS, TARGETS = data.batch(2, MODEL.context)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_dry_run_counts_what_a_real_one_counts(recompute):
    model = gpt.GPT(MODEL, recompute=recompute)
    real = flop.count_flop(lambda: model.loss(TOKENS, TARGETS), model)
    assert dry_run.dry_run(MODEL, sequences=2, recompute=recompute) == real


def test_a_model_too_large_for_any_machine_is_counted():
    huge = gpt.small(layers=3, width=8192, heads=64, vocab=50000, context=2048)
    forward, backward = dry_run.dry_run(huge)
    assert forward["mlp"] == 3 * 2048 * 2 * 8 * 8192**2
    assert backward["mlp"] == 2 * forward["mlp"]


TINY = {"layers": 5, "width": 48, "heads": 4, "kv_heads": 2, "head_dim": 16, "context": 32}


@pytest.mark.parametrize(
    "name, changed",
    [
        ("llama3-8b", {"ffn_width": 56}),
        ("gemma3-27b", {"ffn_width": 56}),
        ("mixtral-8x7b", {"experts": specs.Experts(routed=4, active=2, width=24)}),
        ("mixtral-8x7b", {"experts": specs.Experts(routed=4, active=2, width=24, dense_layers=2)}),
        ("mixtral-8x7b", {"experts": specs.Experts(routed=4, active=2, width=24, every=2)}),
    ],
)
def test_a_layer_of_each_kind_stands_for_all(name, changed):
    model = specs.find_model(name).but(**TINY, vocab=97, padded_vocab=97, **changed)
    whole = dry_run.dry_run_modern(model, sequences=2)
    assert dry_run.dry_run_layers(model, sequences=2) == whole


def test_other_numbers_are_those_of_no_matmul():
    one, two = (dry_run.other_numbers(gpt.small(layers=n)) for n in (1, 2))
    S, h, a = 32, 64, 4
    assert two - one > S * (2 + 2 + 4) * h + 2 * a * S * S, "norms, sums, GELU, mask and softmax"
    assert dry_run.other_numbers(gpt.small(layers=3)) - two == two - one
