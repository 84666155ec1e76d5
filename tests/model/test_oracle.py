"""The yardstick itself: it sees a difference, and weighted parts make the whole."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.model import data, gpt, oracle

MODEL = gpt.small(width=16, heads=2, context=8, vocab=len(data.vocabulary()))


def built() -> nn.Module:
    return gpt.GPT(MODEL).double()


def parts_of_ten() -> list[int]:
    return oracle.my_part([torch.arange(10), torch.arange(20).view(10, 2)])[1][:, 0].tolist()


@pytest.mark.parametrize("n", [1, 3, 4])
def test_parts_make_the_batch_in_order(n):
    dealt = launch.run(parts_of_ten, n)
    assert sum(dealt, []) == list(range(0, 20, 2))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def weighted_gradient(weigh: bool) -> torch.Tensor:
    batch = data.batch(7, MODEL.context)
    model, part = built(), oracle.my_part(batch)
    weight = oracle.my_weight(len(part[0]), len(batch[0])) if weigh else 1.0
    (weight * oracle.loss(model, *part)).backward()
    total = oracle.flat_gradient(model)
    dist.all_reduce(total)
    return total / dist.get_world_size()


def test_weights_make_unequal_parts_the_whole():
    wanted = launch.run(weighted_gradient, 1, True)[0]
    assert oracle.distance(launch.run(weighted_gradient, 3, True), wanted) < 1e-14
    assert oracle.distance(launch.run(weighted_gradient, 3, False), wanted) > 1e-5


@pytest.mark.parametrize("name", oracle.OPTIMIZERS)
def test_history_is_that_of_a_plain_loop(name):
    batches = [data.batch(4, MODEL.context, step) for step in range(3)]
    model = built()
    history = oracle.one_process(
        model, batches, oracle.OPTIMIZERS[name](model.parameters()), clip=0.05
    )
    other = built()
    optimizer = oracle.OPTIMIZERS[name](other.parameters())
    for wanted, (tokens, targets) in zip(history, batches, strict=True):
        optimizer.zero_grad(set_to_none=False)
        other.loss(tokens, targets).backward()
        total = torch.stack([p.grad.norm() for p in other.parameters()]).norm()
        for p in other.parameters():
            p.grad *= min(1.0, 0.05 / (total.item() + 1e-6))
        optimizer.step()
        assert oracle.judged(oracle.distance([oracle.flat_weights(other)], wanted)) == "equal"
    before = oracle.loss(other, *batches[0]).item()
    assert oracle.step(other, optimizer, *batches[0]) == before != oracle.loss(other, *batches[0])
    assert len({one.sum().item() for one in history}) == 3, "a history keeps each step, no view"


def test_a_difference_is_said():
    zeros = torch.zeros(3)
    one_off = torch.tensor([0.0, 0.0, 0.5])
    assert oracle.distance([zeros, one_off], zeros) == 0.5
    none = torch.full_like(zeros, float("nan"))
    for order in ([none, zeros], [zeros, none]):  # max() would forget what is no number
        assert not oracle.distance(order, zeros) < oracle.EQUAL
    assert oracle.judged(0.5) == "apart by 5.0e-01" and oracle.judged(1e-12) == "equal"


def test_a_gradient_that_never_came_is_zero():
    model = oracle.Branches()
    model(torch.ones(1, 4), "left").sum().backward()
    assert oracle.flat_gradient(model).shape == oracle.flat_weights(model).shape
    assert oracle.flat_gradient(model)[-20:].abs().sum() == 0
