"""The meters: known amounts come out exactly, and what must not count does not."""

import pytest
import torch
from torch import nn

from mathlib.meters import flop, live, saved
from mathlib.model import data, dry_run, gpt, mixed_adam

MODEL = gpt.small(vocab=len(data.vocabulary()))
TOKENS, TARGETS = data.batch(2, MODEL.context)


def test_one_linear_layer_costs_2_forward_and_4_backward():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    forward, backward = flop.count_flop(lambda: layer(x).sum(), layer)
    assert forward.total() == 2 * 4 * 8 * 16 and backward.total() == 4 * 4 * 8 * 16


def test_an_input_without_gradient_saves_one_product():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8)
    forward, backward = flop.count_flop(lambda: layer(x).sum(), layer)
    assert backward.total() == forward.total() == 2 * 4 * 8 * 16


@pytest.mark.parametrize("attention, factor", [("plain", 2), ("flash", 2.5)])
def test_parts_of_the_gpt(attention, factor):
    model = gpt.GPT(MODEL, attention)
    forward, backward = flop.count_flop(lambda: model.loss(TOKENS, TARGETS), model)
    B, S, L, h, V = 2, MODEL.context, MODEL.layers, MODEL.width, MODEL.vocab
    assert forward == {
        "attention projections": 2 * B * S * L * 4 * h * h,
        "mlp": 2 * B * S * L * 8 * h * h,
        "attention core": 4 * B * S * S * h * L,
        "vocabulary": 2 * B * S * h * V,
    }
    assert backward == {
        part: (factor if part == "attention core" else 2) * n for part, n in forward.items()
    }


def test_recomputation_is_counted_in_the_backward():
    plain, _ = dry_run.dry_run(MODEL, sequences=2)
    for recompute, again in (
        ("selective", {"attention core"}),
        ("full", set(plain) - {"vocabulary"}),
    ):
        model = gpt.GPT(MODEL, recompute=recompute)
        _, backward = flop.count_flop(lambda m=model: m.loss(TOKENS, TARGETS), model, False)
        assert backward == {part: (3 if part in again else 2) * n for part, n in plain.items()}, (
            recompute
        )


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_dry_run_counts_what_a_real_one_counts(recompute):
    model = gpt.GPT(MODEL, recompute=recompute)
    real = flop.count_flop(lambda: model.loss(TOKENS, TARGETS), model)
    assert dry_run.dry_run(MODEL, sequences=2, recompute=recompute) == real


def test_saved_bytes_of_a_linear_layer_is_its_input():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    assert saved.saved_bytes(lambda: layer(x).sum(), layer) == 4 * 4 * 8


def test_saved_bytes_need_no_numbers():
    layer, x = nn.Linear(8, 16, device="meta"), torch.randn(4, 8, requires_grad=True, device="meta")
    assert saved.saved_bytes(lambda: layer(x).relu().sum(), layer) == 4 * (4 * 8 + 4 * 16)


def test_two_views_of_one_storage_count_once():
    x = torch.randn(64, requires_grad=True)
    assert saved.saved_bytes(
        lambda: ((x * 2).view(8, 8) ** 2).sum() + 0, nn.Identity()
    ) == saved.saved_bytes(lambda: ((x * 2) ** 2).sum() + 0, nn.Identity())


def test_a_step_gives_back_what_it_took():
    model = gpt.GPT(MODEL)
    optimizer = torch.optim.AdamW(model.parameters())
    line = live.step_timeline(
        model, (data.batch(2, MODEL.context, step) for step in range(2)), optimizer
    )
    P = 4 * sum(p.numel() for p in model.parameters())
    tensors = len(list(model.parameters()))
    assert line.at("backward") | {"temporary": 0} == {
        "weights": P,
        "gradients": P,
        "optimizer": 0,
        "activations": line.at("backward")["activations"],
        "temporary": 0,
    }
    assert (
        line.at("step")["optimizer"] == 2 * P + 4 * tensors
    )  # two moments, and a step counter of 4 bytes each
    assert (
        line.at("zero_grad")
        == line.at("zero_grad", 1)
        == {
            "weights": P,
            "gradients": 0,
            "optimizer": 2 * P + 4 * tensors,
            "activations": 0,
            "temporary": 0,
        }
    )
    assert line.phase(line.peak) == "backward" and line.total(line.peak) > line.total(-1)


def test_after_the_block_nothing_is_watched():
    layer = nn.Linear(2, 2)
    with live.live(layer) as watching:
        pass
    seen = len(watching.events)
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert layer.weight.grad is not None and len(watching.events) == seen


def test_frozen_weights_are_weights():
    layer = nn.Linear(2, 2).requires_grad_(False)
    with live.live(layer) as watching:
        layer(torch.ones(1, 2))
        watching.mark("forward")
    assert watching.timeline().at("forward")["weights"] == 4 * (4 + 2)


def test_bytes_of_a_nest_count_each_storage_once():
    x = torch.zeros(4)
    assert (
        saved.tensor_bytes([x, x[:2], {"again": x.view(2, 2), "more": torch.zeros(1)}, None])
        == 16 + 4
    )


def test_activations_of_the_timeline_are_the_saved_bytes():
    model = gpt.GPT(MODEL)
    line = live.step_timeline(model, [(TOKENS, TARGETS)], torch.optim.SGD(model.parameters()))
    assert line.at("forward")["activations"] == saved.saved_bytes(
        lambda: model.loss(TOKENS, TARGETS), model
    )


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
