"""The engine's multiplications against the formulas and against the meter of a real program: one
network, three counts.

B rows · three layers, the first of which reads an input that wants no gradient.
"""

import pytest
import torch
from torch import nn

from mathlib.compute import autodiff, flops
from mathlib.meters import flop

WIDTHS = {"square": (4, 4, 4, 4), "narrowing": (7, 5, 3, 1), "waist": (6, 2, 8, 3)}
ROWS = 5


def engines(widths, wants_input):
    """Multiplications of matmuls, forward and backward, in our own engine."""
    draw = torch.Generator().manual_seed(0)
    x, *weights = (
        torch.randn(shape, generator=draw).tolist()
        for shape in [(ROWS, widths[0]), *zip(widths, widths[1:], strict=False)]
    )
    value = autodiff.Value(x, needs_grad=wants_input)
    for rows in weights:
        value = value @ autodiff.Value(rows)
    loss = value.sum()
    loss.backward()
    matmuls = [one for one in loss.graph() if one.by == "@"]
    return sum(one.made for one in matmuls), sum(one.made_back for one in matmuls)


def programs(widths, wants_input):
    """FLOP of the same network in torch, as the meter sees them."""
    pairs = zip(widths, widths[1:], strict=False)
    model = nn.Sequential(*(nn.Linear(n, m, bias=False) for n, m in pairs))
    x = torch.randn(ROWS, widths[0], requires_grad=wants_input)
    return [parts.total() for parts in flop.count_flop(lambda: model(x).sum(), model)]


@pytest.mark.parametrize("wants_input", [True, False])
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
def test_one_network_three_counts(widths, wants_input):
    forward, backward = engines(widths, wants_input)
    each = [
        flops.matmul(rows=ROWS, inner=n, columns=m)
        for n, m in zip(widths, widths[1:], strict=False)
    ]
    spared = 0 if wants_input else each[0]
    assert [2 * forward, 2 * backward] == [sum(each), 2 * sum(each) - spared]
    assert programs(widths, wants_input) == [2 * forward, 2 * backward]
