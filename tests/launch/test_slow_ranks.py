"""A layer that sleeps passes numbers and gradients on, and takes twice as long backward."""

import torch

from mathlib.launch import slow_ranks


def test_it_sleeps_once_forward_and_twice_backward(monkeypatch):
    slept = []
    monkeypatch.setattr(slow_ranks.time, "sleep", slept.append)
    x = torch.arange(3.0, requires_grad=True)
    y = slow_ranks.Sleep.apply(x, 0.5)
    assert torch.equal(y, x) and slept == [0.5]
    (2 * y).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and slept == [0.5, 1.0]
