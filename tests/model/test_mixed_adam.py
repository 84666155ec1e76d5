"""Adam in mixed precision: torch's update, and the bytes and the losses of every copy."""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.model import data, gpt, mixed_adam

MODEL = gpt.small(vocab=len(data.vocabulary()))


def test_our_adam_is_torchs():
    torch.manual_seed(0)
    weight, twin = torch.randn(50), nn.Parameter(torch.empty(50))
    twin.data.copy_(weight)
    theirs, m, v = (
        torch.optim.AdamW([twin], lr=0.1, betas=(0.9, 0.95), weight_decay=0),
        torch.zeros(50),
        torch.zeros(50),
    )
    for step in range(1, 6):
        twin.grad = torch.randn(50)
        mixed_adam.adam(weight, twin.grad, m, v, step, 0.1, (0.9, 0.95))
        theirs.step()
    torch.testing.assert_close(weight, twin.data)


RECIPES = [
    ({"master": False}, 2 + 2 + 8),
    ({}, 16),
    ({"gradients": "main"}, 18),
    ({"gradients": "both"}, 20),
]


@pytest.mark.parametrize("switches, bytes_each", RECIPES)
def test_bytes_per_parameter_of_mixed_precision(switches, bytes_each):
    model = gpt.GPT(MODEL)
    optimizer = mixed_adam.MixedAdam(model, **switches)
    for step in range(2):
        optimizer.zero_grad()
        model.loss(*data.batch(2, MODEL.context, step)).backward()
        held = optimizer.bytes()
        optimizer.step()
    assert sum(held.values()) == bytes_each * sum(p.numel() for p in model.parameters())


def test_master_weights_take_steps_that_bf16_rounds_away():
    weights = {}
    for master in (True, False):
        layer = nn.Linear(1, 1, bias=False)
        nn.init.ones_(layer.weight)
        optimizer = mixed_adam.MixedAdam(layer, master=master, lr=1e-3)
        for _ in range(20):
            optimizer.zero_grad()
            layer(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
            optimizer.step()
        weights[master] = layer.weight.item()
    assert weights[False] == 1.0 and weights[True] < 0.99


def test_main_gradients_add_up_what_half_ones_would_round_away():
    layer = nn.Linear(1, 1, bias=False)
    optimizer = mixed_adam.MixedAdam(layer, gradients="main")
    for value in [1.0] + [1 / 512] * 8:  # bf16 has no number between 1 and 1 + 1/128
        layer(torch.full((1, 1), value, dtype=torch.bfloat16)).sum().backward()
    assert optimizer.main["weight"].item() == 1 + 8 / 512


def test_a_step_without_a_gradient_is_refused_by_the_parameters_name():
    layer = nn.Linear(1, 1)
    optimizer = mixed_adam.MixedAdam(layer)
    with pytest.raises(InputError, match="weight: has no gradient"):
        optimizer.step()


def test_chance_takes_the_steps_that_bf16_rounds_away():
    layer = nn.Linear(1, 400, bias=False)
    nn.init.ones_(layer.weight)
    optimizer = mixed_adam.MixedAdam(layer, master=False, lr=1e-3, rounding="stochastic")
    for _ in range(20):
        optimizer.zero_grad()
        layer(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
    assert layer.weight.float().mean().item() == pytest.approx(1 - 20e-3, abs=2e-3)
    assert not optimizer.master
