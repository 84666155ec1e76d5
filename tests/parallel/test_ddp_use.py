"""What may stand between forward and backward."""

import contextlib
import copy

import pytest
import torch
import torch.distributed as dist
from small_models import Chain, step
from torch import nn

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel import ddp
from mathlib.parallel.ddp import DDP


def test_nothing_is_sent_inside_no_sync():
    def calls() -> tuple[dict, dict]:
        counts = []
        model = DDP(
            nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1)), find_unused_parameters=True
        )
        for where in (model.no_sync(), contextlib.nullcontext()):
            with wire.counted() as counted, where:
                model(torch.ones(2, 1)).sum().backward()
            counts.append(dict(counted.calls))
        return counts

    # buffers, in whole numbers and in others; who has a gradient, and the one bucket
    assert launch.run(calls, 1) == [[{}, {"broadcast_": 2, "allreduce_": 2}]]


def test_an_inner_no_sync_does_not_end_the_outer_one():
    def gradients() -> tuple[float, float]:
        model, seen = DDP(nn.Linear(1, 1)), []
        with model.no_sync():
            with model.no_sync():
                pass
            model(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
            seen.append(model.module.weight.grad.item())
        model(torch.zeros(1, 1)).sum().backward()
        return [*seen, model.module.weight.grad.item()]

    assert launch.run(gradients, 2) == [[0.0, 1.0], [2.0, 1.0]]


def test_an_error_inside_no_sync_ends_it():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        with contextlib.suppress(ZeroDivisionError), model.no_sync():
            1 / 0  # noqa: B018
        model(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.0, 1.0]


def test_after_an_interrupted_backward_the_next_one_works():
    def again() -> torch.Tensor:
        model = DDP(Chain())
        handle = model.module.a.weight.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(model)
        handle.remove()
        for _ in range(2):
            model.zero_grad()
            step(model)
        assert sorted(sum(model.layout(), [])) == sorted(model.names.values()), "each has one slot"
        return model.module.a.weight.grad

    assert torch.equal(*launch.run(again, 2))


def test_a_broken_backward_leaves_nothing_in_the_buckets():
    """The next one meets the layers in another order: nothing counts as there already."""

    def again() -> None:
        torch.manual_seed(0)
        chain = Chain()
        plain, model = copy.deepcopy(chain), DDP(chain)
        handle = chain.a.weight.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(model)  # c and b have arrived
        handle.remove()
        for module in (chain, plain):
            module.zero_grad()
            module.use = "cba"
        step(model)
        step(plain)
        ddp.average_gradients(plain)
        for ours, its in zip(chain.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, its.grad)

    launch.run(again, 2)


def test_two_forwards_may_come_before_their_two_backwards():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        outputs = [model(torch.full((1, 1), x + dist.get_rank())) for x in (1.0, 10.0)]
        for output in outputs:
            output.sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.5 + 10.5] * 2


def test_a_backward_before_any_forward_sends():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        model.module(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.0, 1.0]


@pytest.mark.parametrize("find_unused", [False, True])
def test_all_stays_on_the_devices_of_the_parameters(find_unused):
    """Whatever torch makes new tensors on: here, on a device that has no numbers."""

    def gradient() -> float:
        model = DDP(nn.Linear(1, 1), find_unused_parameters=find_unused)
        x = torch.full((1, 1), 2.0 * dist.get_rank())
        with torch.device("meta"):
            model(x).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.0, 1.0]


class Scaled(nn.Module):
    """A weight and a buffer that backward needs again, like the cosines of a rotary embedding."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("scale", torch.full((1,), 2.0 + dist.get_rank()))

    def forward(self, x):
        return self.weight * x * self.scale


def test_a_buffer_may_be_broadcast_between_forward_and_backward():
    def gradient() -> float:
        model = DDP(Scaled())
        (model(torch.ones(1)) + model(torch.ones(1))).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [4.0, 4.0]


def test_a_backward_after_one_that_broke_off_needs_a_forward():
    def broken() -> str:
        model = DDP(Chain())
        outputs = [model(torch.ones(1, 8)).sum() for _ in range(2)]
        handle = model.module.a.weight.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            outputs[0].backward()
        handle.remove()
        with pytest.raises(RuntimeError) as caught:
            outputs[1].backward()
        return str(caught.value)

    told = launch.run(broken, 2)
    assert all(
        s.startswith("a backward began while another had not ended") and "run forward again" in s
        for s in told
    )


@pytest.mark.parametrize("find_unused", [False, True])
@pytest.mark.parametrize("forward_inside", [False, True])
def test_the_forward_decides_whether_a_backward_sends(forward_inside, find_unused):
    """As in PyTorch's own DDP, which is asked too."""

    def gradients() -> list[float]:
        found = []
        for wrap in (DDP, nn.parallel.DistributedDataParallel):
            model = wrap(nn.Linear(1, 1), find_unused_parameters=find_unused)
            x = torch.full((1, 1), 2.0 * dist.get_rank())
            with model.no_sync() if forward_inside else contextlib.nullcontext():
                loss = model(x).sum()
            with contextlib.nullcontext() if forward_inside else model.no_sync():
                loss.backward()
            found.append(model.module.weight.grad.item())
        return found

    expected = [[0.0, 0.0], [2.0, 2.0]] if forward_inside else [[1.0, 1.0]] * 2
    assert launch.run(gradients, 2) == expected


def test_an_evaluation_in_between_decides_nothing():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        loss = model(torch.full((1, 1), 2.0 * dist.get_rank())).sum()
        with torch.no_grad(), model.no_sync():
            model(torch.ones(1, 1))
        loss.backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.0, 1.0]
