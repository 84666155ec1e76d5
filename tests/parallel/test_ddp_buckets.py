"""Buckets: when they are full, when they leave, in which order, and what a hook does to them."""

import inspect

import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE
from small_models import ONE_LAYER, Chain, step
from torch import nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from mathlib import launch
from mathlib.meters import wire
from mathlib.meters.trace import Trace
from mathlib.parallel import ddp
from mathlib.parallel.ddp import DDP


def layouts() -> list[list[list[str]]]:
    model = DDP(Chain(use="bca"), bucket_bytes=ONE_LAYER, first_bucket_bytes=4 * 8)
    seen = [model.layout()]
    for _ in range(2):
        step(model)
        seen.append(model.layout())
    return seen


def test_buckets_start_in_reverse_and_are_rebuilt_once_in_the_order_of_arrival():
    before, after, later = launch.run(layouts, 2)[1]
    assert before == [["c.bias"], ["c.weight", "b.bias"], ["b.weight", "a.bias"], ["a.weight"]]
    assert (
        after == [["a.bias"], ["a.weight", "c.bias"], ["c.weight", "b.bias"], ["b.weight"]] == later
    )


def test_only_the_first_step_sends_an_order():
    def calls() -> list[dict]:
        model, counts = DDP(Chain()), []
        for _ in range(3):
            with wire.counted() as counted:
                step(model)
            counts.append(dict(counted.calls))
        return counts

    assert launch.run(calls, 1)[0] == [
        {"allreduce_": 1, "broadcast_": 1},
        {"allreduce_": 1},
        {"allreduce_": 1},
    ]


def test_all_ranks_take_rank_0s_order():
    def disagree() -> tuple[list[list[str]], list[float]]:
        model = DDP(
            Chain(use=["abc", "cab"][dist.get_rank()]),
            bucket_bytes=ONE_LAYER,
            first_bucket_bytes=ONE_LAYER,
        )
        for _ in range(2):
            model.zero_grad()
            step(model)
        return model.layout(), model.module.b.weight.grad

    (layout, gradient), (other, same) = launch.run(disagree, 2)
    assert (
        layout == other == [["c.bias", "c.weight"], ["b.bias", "b.weight"], ["a.bias", "a.weight"]]
    )
    assert torch.equal(gradient, same)


def test_a_bucket_holds_one_type_of_number():
    def types() -> list[list[str]]:
        model = Chain()
        model.b.to(torch.bfloat16)
        return DDP(model, first_bucket_bytes=1e9).layout()

    assert launch.run(types, 1)[0] == [
        ["b.bias", "b.weight"],
        ["c.bias", "c.weight", "a.bias", "a.weight"],
    ]


def events(bucket_bytes: float) -> tuple[list, int]:
    trace = Trace(dist.get_rank())
    chain = Chain()
    for p in (
        chain.parameters()
    ):  # before DDP's own hooks, so that these note a gradient before it may leave
        p.register_post_accumulate_grad_hook(lambda _: trace.begin("gradient")())
    step(DDP(chain, bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes, trace=trace))
    return trace.events, sum(p.nbytes for p in chain.parameters())


def test_full_buckets_leave_while_backward_goes_on():
    for found, volume in launch.run(events, 2, ONE_LAYER):
        sends = sorted((e for e in found if e.kind == "communication"), key=lambda e: e.start)
        last = max(e.start for e in found if e.what == "gradient")
        assert [e.what for e in sends] == [f"all-reduce of bucket {i}" for i in range(3)]
        assert [e.start < last for e in sends] == [True, True, False]
        assert sum(e.bytes for e in sends) == volume and all(e.end > e.start for e in sends)
        (wait,) = (e for e in found if e.kind == "idle")
        assert last <= wait.start and max(e.end for e in sends) <= wait.end, (
            "from the last gradient to the last mean"
        )
    for found, volume in launch.run(events, 2, 1e9):
        assert [e.bytes for e in found if e.kind == "communication"] == [volume]


def test_backward_does_not_wait_for_a_bucket():
    """A bucket whose average comes only when the next one leaves would hang a DDP that waits for
    each.
    """

    def patient() -> list[float]:
        waiting: list[tuple[Future, torch.Tensor]] = []

        def late(flat: torch.Tensor, group) -> Future:
            for future, before in waiting:
                ddp.summed(before, group).wait()
                future.set_result(None)
            waiting[:] = [(Future(), flat)]
            if len(sent) == 2:
                ddp.summed(flat, group).wait()
                waiting[0][0].set_result(None)
            sent.append(flat.numel())
            return waiting[0][0]

        sent: list[int] = []
        model = DDP(Chain(), bucket_bytes=ONE_LAYER, first_bucket_bytes=ONE_LAYER, hook=late)
        step(model)
        return model.module.c.bias.grad.tolist()

    assert launch.run(patient, 2, timeout=PATIENCE) == [[2.0] * 8] * 2


class Strided(nn.Module):
    """Weights that do not lie in memory row by row: a convolution in channels_last, and a
    transposed matrix.
    """

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.matrix = nn.Parameter(torch.randn(5, 4).t())

    def forward(self, x):
        return self.convolution(x).mean((2, 3)) @ self.matrix


FUSED = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, fused=True),
}


@pytest.mark.parametrize("optimizer", FUSED.values(), ids=FUSED)
def test_fused_optimizers_train_as_with_torchs_own(optimizer):
    """They walk through weight and gradient side by side, whatever the strides of either."""

    def trained() -> None:
        found = []
        for wrap in (DDP, DistributedDataParallel):
            torch.manual_seed(0)
            model = wrap(Strided())
            steps = optimizer(model.parameters())
            for number in range(3):
                steps.zero_grad()
                draw = torch.Generator().manual_seed(10 * number + dist.get_rank())
                model(torch.randn(2, 3, 5, 5, generator=draw)).square().sum().backward()
                steps.step()
            found.append(list(model.module.parameters()))
            assert all(p.grad.stride() == p.stride() for p in found[-1])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs)

    launch.run(trained, 2)


def elsewhere(flat: torch.Tensor, group) -> Future:
    """A hook whose future holds a new tensor, as PyTorch's own hooks may."""
    total = flat.clone()
    work = dist.all_reduce(total, group=group, async_op=True)
    return work.get_future().then(lambda _: 10 * total)


@pytest.mark.parametrize("trace", [None, Trace()], ids=["", "traced"])
def test_what_the_hooks_future_holds_is_the_sum(trace):
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1), hook=elsewhere, trace=trace)
        model(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [10.0] * 2


def fails(flat: torch.Tensor, group) -> Future:
    return ddp.summed(flat, group).then(lambda _: 1 / 0)


@pytest.mark.parametrize("trace", [None, Trace()], ids=["", "traced"])
def test_a_hook_that_fails_on_the_way_is_an_error(trace):
    with pytest.raises(launch.RankError, match="ZeroDivisionError"):
        launch.run(lambda: step(DDP(Chain(), hook=fails, trace=trace)), 2)


def test_buckets_are_as_large_as_torchs_unless_told_otherwise():
    ours = inspect.signature(DDP).parameters
    theirs = inspect.signature(DistributedDataParallel).parameters
    default = theirs["bucket_cap_mb"].default or 25  # None: what its page says
    assert ours["bucket_bytes"].default == default * 2**20
    assert ours["first_bucket_bytes"].default == dist._DEFAULT_FIRST_BUCKET_BYTES


def test_nothing_is_recorded_unless_asked():
    def events() -> list:
        model = DDP(Chain())
        step(model)
        return model.trace.events

    assert launch.run(events, 1) == [[]]
