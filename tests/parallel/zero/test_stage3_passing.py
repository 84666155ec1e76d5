"""Backward takes one layer after the other, and what it has passed is given back."""

import copy

import pytest
import torch
from torch import nn

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.stage3 import Zero3


class Chain(nn.Module):
    def __init__(self, layers: nn.ModuleList, order: list[int]):
        super().__init__()
        self.layers, self.order = layers, order

    def forward(self, x):
        for i in self.order:
            x = self.layers[i](x)
        return x


class Aside(nn.Module):
    """A layer whose second output goes to the loss, past the layers after it."""

    def __init__(self):
        super().__init__()
        self.way, self.aside = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, both):
        x, told = both
        return self.way(x).tanh(), told + self.aside(x).tanh().sum()


def most_whole(model: Chain, *start) -> tuple[int, float]:
    """Most layers whole at once, and how far the weights are from one process after two steps."""
    plain = copy.deepcopy(model)
    sgd = oracle.OPTIMIZERS["SGD"]([p for p in plain.parameters() if p.requires_grad])
    zero, most = Zero3(model, oracle.OPTIMIZERS["SGD"], model.layers, prefetch=0), [0]
    gather = FlatShard.gather

    def seen(self):
        gather(self)
        whole = [layer for layer in model.layers if any(row.whole for row in zero.rows[layer])]
        most[0] = max(most[0], len(whole))

    FlatShard.gather = seen
    for _ in range(2):
        for one, update in ((plain, sgd.step), (model, zero.step)):
            sum(out.sum() for out in one(*start)).backward()
            update()
        sgd.zero_grad()
    FlatShard.gather = gather
    whole = zero.full_weights()
    far = max((whole[n] - p).abs().max().item() for n, p in plain.named_parameters())
    return most[0], far


def chain(kind: str) -> tuple[Chain, object]:
    torch.manual_seed(0)
    start = torch.ones(2, 3, dtype=torch.float64)
    if kind == "aside":
        layers, start = nn.ModuleList(Aside() for _ in range(4)), (start, 0.0)
    else:
        layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
    if kind == "frozen":
        layers[1:].requires_grad_(False)
    order = [0, 1, 2, 0, 3, 1] if kind == "twice" else [0, 1, 2, 3]
    return Chain(layers.double(), order), start


@pytest.mark.parametrize("kind", ["plain", "frozen", "twice", "aside"])
def test_one_layer_at_a_time_is_whole_in_backward(kind):
    """Frozen layers send no gradient, and one that is called twice waits for its first call."""

    def run():
        model, start = chain(kind)
        return most_whole(model, start)

    for most, far in launch.run(run, 2):
        assert most == 1 and far < oracle.EQUAL
