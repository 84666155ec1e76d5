"""The timeline of a step: what is followed, and in which phase."""

import pytest
import torch

from mathlib.meters import live
from mathlib.model import data, gpt, mixed_adam

MODEL = gpt.small(vocab=len(data.vocabulary()))


def batches(number):
    return (data.batch(2, MODEL.context, step) for step in range(number))


def test_gradients_live_from_micro_batch_to_micro_batch():
    run = gpt.GPT(MODEL)
    line = live.step_timeline(run, batches(4), torch.optim.SGD(run.parameters()), accumulation=2)
    once = ["forward", "backward"] * 2 + ["step", "zero_grad"]
    assert [name for _, name in line.marks] == once * 2 and len(line.steps()) == 2
    P = 4 * sum(p.numel() for p in run.parameters())
    assert [line.at("forward", i)["gradients"] for i in range(4)] == [0, P, 0, P]
    assert line.at("zero_grad")["activations"] == line.at("zero_grad")["temporary"] == 0


def test_autocast_keeps_half_of_what_products_read_and_a_copy_of_every_matrix():
    kept = {}
    for cast in (None, torch.bfloat16):
        run = gpt.GPT(MODEL, "flash")
        optimizer = torch.optim.SGD(run.parameters())
        kept[cast] = live.step_timeline(run, batches(1), optimizer, autocast=cast).at("forward")
        assert all(p.dtype == torch.float32 for p in run.parameters())
    assert kept[None]["weights"] == kept[torch.bfloat16]["weights"]
    matrices = 2 * sum(p.numel() for p in run.parameters() if p.dim() == 2)
    saved = kept[torch.bfloat16]["activations"]
    assert 0.5 * kept[None]["activations"] + 0.9 * matrices < saved, "the stream stays in 32 bits"
    assert saved < kept[None]["activations"] + matrices


@pytest.mark.parametrize("gradients, numbers", [("half", 12), ("main", 16)])
def test_what_mixed_adam_keeps_is_optimizer_state(gradients, numbers):
    run = gpt.GPT(MODEL)
    optimizer = mixed_adam.MixedAdam(run, gradients=gradients)
    line = live.step_timeline(run, batches(2), optimizer)
    P = sum(p.numel() for p in run.parameters())
    assert line.at("forward", 1)["weights"] == 2 * P
    assert line.at("forward", 1)["optimizer"] == numbers * P
