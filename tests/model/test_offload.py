"""Activations on the host: the same gradients, and every saved byte has left."""

import pytest
import torch

from mathlib.meters.saved import saved_bytes
from mathlib.model import data, gpt, oracle
from mathlib.model.offload import offloaded

SHAPE = gpt.small(vocab=len(data.vocabulary()))
BATCH = data.batch(4, 16, 0)


@pytest.mark.parametrize("attention", ["plain", "flash"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_what_autograd_saves_leaves_and_comes_back(attention, recompute):
    model = gpt.GPT(SHAPE, attention=attention, recompute=recompute)
    saved = saved_bytes(lambda: oracle.loss(model, *BATCH), model)
    oracle.loss(model, *BATCH).backward()
    wanted = oracle.flat_gradient(model)
    model.zero_grad()
    with offloaded(model) as moved:
        loss = oracle.loss(model, *BATCH)
    assert moved.bytes == saved
    assert moved.left <= sum(t.nbytes for t in BATCH)  # the batch is ours
    loss.backward()
    assert torch.equal(oracle.flat_gradient(model), wanted)


def test_recomputation_leaves_little_to_move():
    def bytes(recompute):
        model = gpt.GPT(SHAPE, recompute=recompute)
        with offloaded(model) as moved:
            oracle.loss(model, *BATCH)
        return moved.bytes

    assert bytes("full") < 0.3 * bytes("none")


def test_a_tensor_that_changed_since_it_was_saved_is_saved_anew():
    x, factor = torch.ones(3, requires_grad=True), torch.ones(3)
    with offloaded(torch.nn.Module()) as moved:
        first = factor * x
        factor.add_(1)
        second = factor * x
    (first + second).sum().backward()
    assert x.grad.tolist() == [1 + 2] * 3
    assert moved.bytes == 2 * factor.nbytes
