"""What is read off a reader's model: its shape, its kernel, what it computes again, its batches."""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.meters import known_shape
from mathlib.meters.flop import FlopMeter
from mathlib.model import data, gpt

MODEL = gpt.small(vocab=len(data.vocabulary()))


def test_a_shape_is_found_inside_a_wrapper_and_refused_where_there_is_none():
    inner = gpt.GPT(MODEL)
    assert known_shape.architecture(nn.Sequential(inner)) == (inner, MODEL)
    with pytest.raises(InputError, match="Linear has no config"):
        known_shape.architecture(nn.Linear(1, 1))


def test_every_forward_is_noted_until_the_end():
    model = gpt.GPT(MODEL)
    with known_shape.forwards(model) as shapes:
        for sequences in (1, 3):
            model(data.batch(sequences, 8)[0])
    model(data.batch(2, 8)[0])
    assert shapes == [(1, 8), (3, 8)]


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_two_forwards_compute_twice_and_keep_once(recompute):
    model = gpt.GPT(MODEL, recompute=recompute)
    one, two = (known_shape.amounts(model, MODEL, [(2, 32)] * n) for n in (1, 2))
    assert two == one | {name: 2 * one[name] for name in ("FLOP", "model FLOP")}
    assert one["model FLOP"] == flops.training(MODEL, sequences=2, tokens=32).total
    with FlopMeter(model) as counted:
        model.loss(*data.batch(2, 32)).backward()
    assert counted.parts.total() == one["FLOP"]


@pytest.mark.parametrize("kernel, word", [("sdpa", "flash"), ("eager", "standard")])
def test_a_config_of_transformers_says_which_kernel(kernel, word):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, attn_implementation=kernel
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    assert known_shape.architecture(model)[1].attention == word
    assert known_shape.recomputes(model) == "none"
    model.gradient_checkpointing_enable()
    assert known_shape.recomputes(model) == "full"
