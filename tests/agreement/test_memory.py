"""The memory formulas against counted runs: bytes saved for backward, optimizer states, the
plateaus of a step.
"""

import pytest
import torch

from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.meters import live, saved
from mathlib.model import data, gpt, mixed_adam
from mathlib.specs import Layout

SHAPES = {
    "plain": {},
    "deep": {"layers": 5},
    "one head": {"heads": 1},
    "odd sizes": {"layers": 3, "width": 60, "heads": 5, "context": 23},
    "narrow MLP": {"ffn_width": 100},
    "untied": {"tied": False},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def model(request):
    return gpt.small(vocab=len(data.vocabulary()), **request.param)


@pytest.mark.parametrize("sequences", [1, 4])
@pytest.mark.parametrize("attention", ["plain", "flash"])
def test_saved_for_backward(model, attention, sequences):
    run = gpt.GPT(model, attention)
    tokens, targets = data.batch(sequences, model.context)
    predicted = activations.stage(
        model,
        Layout(micro_batch=sequences),
        dropout=False,
        bytes_per_element=4,
        small_tensors=True,
        attention={"plain": "standard"}.get(attention, attention),
    )
    assert saved.saved_bytes(lambda: run.loss(tokens, targets), run) == predicted.total


STATES = {  # optimizer, its recipe, PyTorch's counters of 4 bytes a tensor
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), "sgd", 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "sgd-momentum", 0),
    "adam": (lambda p: torch.optim.AdamW(p), "adam-fp32", 4),
}


@pytest.mark.parametrize("make, recipe, counter", STATES.values(), ids=STATES)
def test_optimizer_states(model, make, recipe, counter):
    run = gpt.GPT(model)
    optimizer = make(run.parameters())
    run.loss(*data.batch(2, model.context)).backward()
    optimizer.step()
    held = saved.tensor_bytes(
        [list(run.parameters()), [p.grad for p in run.parameters()], list(optimizer.state.values())]
    )
    P, tensors = params.count(model).total, len(list(run.parameters()))
    assert held == precision.bytes_per_parameter(recipe).total * P + counter * tensors


KINDS = {
    "mixed-adam": "half",
    "mixed-adam-fp32-gradients": "main",
    "mixed-adam-both-gradients": "both",
}


@pytest.mark.parametrize("recipe, gradients", KINDS.items())
def test_every_copy_of_mixed_precision(model, recipe, gradients):
    run = gpt.GPT(model)
    optimizer = mixed_adam.MixedAdam(run, gradients=gradients)
    run.loss(*data.batch(2, model.context)).backward()
    held, each, P = (
        optimizer.bytes(),
        precision.bytes_per_parameter(recipe),
        params.count(model).total,
    )
    moments = each.amount("first moment") + each.amount("second moment")
    predicted = {name: each.amount(name) * P for name in each if "moment" not in name} | {
        "optimizer": moments * P
    }
    assert held == predicted


def test_the_plateaus_of_a_step(model):
    run = gpt.GPT(model)
    optimizer = torch.optim.AdamW(run.parameters())
    line = live.step_timeline(
        run, (data.batch(2, model.context, step) for step in range(2)), optimizer
    )
    P, tensors = params.count(model).total, len(list(run.parameters()))
    assert line.at("backward", 1)["gradients"] == line.at("forward", 1)["weights"] == 4 * P
    assert line.at("zero_grad", 1)["optimizer"] == 8 * P + 4 * tensors
    first, second = (max(line.total(row) for row in range(*span)) for span in line.steps())
    assert second > first
