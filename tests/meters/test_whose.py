"""Whose an allocation or a message is; what torch's own classes call is held in test_report."""

import pytest
import torch
from torch import nn

from mathlib.meters import whose


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.0.mlp.gate_proj", "mlp"),
        ("module.model.layers.11.self_attn.q_proj", "self_attn"),
        ("layers.3.mlp.experts.7.up", "mlp"),
        ("layers.3", "layers"),
        ("transformer.wte", "wte"),
        ("lm_head", "lm_head"),
        ("", ""),
        ("module", ""),
    ],
)
def test_layers_are_put_together_and_parts_are_not(name, part):
    assert whose.part_of(name) == part


def test_the_innermost_module_that_runs_is_told_and_nothing_afterwards():
    class Inner(nn.Linear):
        def forward(self, x):
            told.append(who())
            return super().forward(x)

    told, entered = [], []
    model = nn.Sequential()
    model.body = nn.Sequential(Inner(2, 2), nn.Sequential(Inner(2, 2)))
    with whose.running(model, lambda _, part: entered.append(part)) as who:
        assert who() == ""
        model(torch.ones(1, 2))
        assert who() == "" and told == ["body", "0"] and entered[0] == "Sequential"
    told.clear()
    model(torch.ones(1, 2))
    assert told == ["", ""], "the hooks are gone"


def test_a_forward_that_fails_leaves_no_part_behind():
    model = nn.Sequential(nn.Linear(2, 2))
    with whose.running(model) as who:
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 3))
        assert who() == ""


def test_the_backward_is_told_from_the_rest():
    seen = []
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda _: seen.append(whose.purpose("allreduce_")))
    (2 * x).sum().backward()
    assert (*seen, whose.purpose("allreduce_")) == ("in the backward", "elsewhere")


def test_a_step_that_fails_leaves_no_hooks_behind():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="shapes"), whose.running(model):
        model(torch.ones(1, 3))
    assert not model._forward_hooks and not model._forward_pre_hooks
