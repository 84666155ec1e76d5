"""What may stand between forward and backward, and what is refused because it would go wrong
unseen.
"""

import contextlib
import copy
import re
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from small_models import FLOATS, Chain, step
from torch import nn

from mathlib import launch
from mathlib.meters import wire
from mathlib.model.mixed_adam import MixedAdam
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


def test_a_gradient_with_a_graph_is_refused_and_a_penalty_by_grad_is_right():
    def penalised() -> tuple[str, list[float]]:
        model = DDP(nn.Linear(1, 1, bias=False))
        nn.init.constant_(model.module.weight, 3.0)
        x = torch.full((1, 1), 1.0 + dist.get_rank(), requires_grad=True)
        with pytest.raises(RuntimeError) as caught:
            model(x).square().sum().backward(create_graph=True)
        model.zero_grad()
        (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        slope.square().sum().backward()  # slope = 2 w^2 x
        return str(caught.value), model.module.weight.grad.tolist()

    for told, penalty in launch.run(penalised, 2):
        assert "weight has a gradient with a graph of its own (create_graph=True)" in told
        assert penalty == [[(16 * 27 * 1 + 16 * 27 * 4) / 2]]


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


def changed(how: Callable[[nn.Module], object]) -> Callable[[], None]:
    def run() -> None:
        model = DDP(Chain())
        step(model)
        how(model.module)
        model(torch.ones(2, 8, dtype=model.module.b.weight.dtype)).sum().backward()

    return run


def drop(p: nn.Parameter) -> None:
    p.grad = None


def double(p: nn.Parameter) -> None:
    p.grad *= 2


def with_hook(hook: Callable[[nn.Parameter], object], before: bool) -> Callable[[], None]:
    def run() -> None:
        chain = Chain()
        if before:
            chain.b.weight.register_post_accumulate_grad_hook(hook)
        model = DDP(chain)
        if not before:
            chain.b.weight.register_post_accumulate_grad_hook(hook)
        step(model)

    return run


def with_mixed_adam(gradients: str, before: bool) -> Callable[[], None]:
    def run() -> None:
        model = Chain().bfloat16()
        if before:
            MixedAdam(model, gradients=gradients)
        wrapped = DDP(model)
        if not before:
            MixedAdam(model, gradients=gradients)
        wrapped(torch.ones(1, 8, dtype=torch.bfloat16)).sum().backward()

    return run


def wrapped_twice():
    inner = nn.Linear(1, 1)
    DDP(inner)
    return DDP(nn.Sequential(inner))


REFUSED = {
    "twice": (wrapped_twice, "ValueError: 0.weight is in another DDP already"),
    "copied": (
        lambda: copy.deepcopy(DDP(nn.Linear(1, 1))),
        "TypeError: a DDP cannot be copied or saved",
    ),
    "nothing to train": (
        lambda: DDP(nn.ReLU()),
        "ValueError: the module has no trainable parameters",
    ),
    "frozen later": (
        changed(lambda chain: chain.b.weight.requires_grad_(False)),
        "RuntimeError: the module is not what was wrapped. Then b.weight: (8, 8), torch.float32 on "
        "cpu, strides (8, 1); now b.weight: (8, 8), torch.float32 on cpu, no gradient. Freeze,",
    ),
    "converted later": (
        changed(lambda chain: chain.double()),
        "RuntimeError: the module is not what was wrapped. Then a.weight: (8, 8), torch.float32",
    ),
    "a parameter added later": (
        changed(lambda chain: chain.register_parameter("z", nn.Parameter(torch.ones(1)))),
        "Then a.weight: (8, 8), torch.float32 on cpu, strides (8, 1); now z: (1,), torch.float32",
    ),
    "backward of some inputs": (
        lambda: (
            (model := DDP(Chain()))(torch.ones(1, 8)).sum().backward(inputs=[model.module.b.weight])
        ),
        "MissingGradients: 5 of 6 parameters got no gradient in this backward",
    ),
    "an earlier hook drops": (
        with_hook(drop, before=True),
        "RuntimeError: b.weight lost its gradient to another hook before DDP could send it",
    ),
    "a later hook drops": (
        with_hook(drop, before=False),
        "RuntimeError: another hook took or changed the gradient of b.weight",
    ),
    "a later hook writes": (
        with_hook(double, before=False),
        "RuntimeError: another hook took or changed the gradient of b.weight",
    ),
    **{
        f"MixedAdam {gradients}, {'before' if before else 'after'}": (
            with_mixed_adam(gradients, before),
            "ValueError: a.weight gives its gradient to MixedAdam before the ranks have met"
            if before
            else "RuntimeError: another hook took or changed the gradient of c.bias",
        )
        for gradients in ("main", "both")
        for before in (True, False)
    },
    "a hook without a future": (
        lambda: step(DDP(Chain(), hook=lambda flat, group: None)),
        "TypeError: the hook returned None: expected a future",
    ),
    "meta": (
        lambda: DDP(nn.Linear(1, 1, device="meta")),
        "ValueError: weight is on the meta device: expected a tensor",
    ),
    "sparse": (
        lambda: DDP(nn.Embedding(2, 1, sparse=True))(torch.tensor([0])).sum().backward(),
        "TypeError: weight has a gradient of layout torch.sparse_coo: expected a dense one",
    ),
    "complex": (
        lambda: (
            DDP(nn.Linear(1, 1, dtype=torch.complex64), hook=ddp.summed_in_fp16)(
                torch.ones(1, 1, dtype=torch.complex64)
            )
            .abs()
            .sum()
            .backward()
        ),
        "TypeError: gradients of type torch.complex64: expected real ones",
    ),
}


@pytest.mark.parametrize(("wrong", "told"), REFUSED.values(), ids=REFUSED)
def test_what_would_go_wrong_unseen_is_refused(wrong, told):
    with pytest.raises(launch.RankError) as caught:
        launch.run(wrong, 1)
    assert told in caught.value.failures[0]


class Counting(nn.Linear):
    """A layer with a buffer of this type, or without one."""

    def __init__(self, dtype: torch.dtype | None):
        super().__init__(4, 4)
        if dtype:
            self.register_buffer("count", torch.zeros(1, dtype=dtype))


def frozen(module: nn.Module, name: str) -> nn.Module:
    module.get_parameter(name).requires_grad = False
    return module


def transposed(rank: int) -> nn.Linear:
    layer = nn.Linear(4, 4)
    if rank:
        layer.weight.data = layer.weight.data.t()
    return layer


DIFFERENT = {
    "shape": (lambda r: nn.Linear(4, 4 + r), "weight: (4, 4), ", "weight: (5, 4), "),
    "type": (
        lambda r: nn.Linear(4, 4, dtype=FLOATS[r]),
        "weight: (4, 4), torch.float32 on cpu, ",
        "weight: (4, 4), torch.float64 on cpu, ",
    ),
    "number": (
        lambda r: nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + r))),
        "nothing more",
        "1.weight: (4, 4), ",
    ),
    "strides": (
        transposed,
        "weight: (4, 4), torch.float32 on cpu, strides (4, 1)",
        "weight: (4, 4), torch.float32 on cpu, strides (1, 4)",
    ),
    "frozen": (
        lambda r: frozen(nn.Linear(4, 4), "weight" if r else "bias"),
        "weight: (4, 4), torch.float32 on cpu, strides (4, 1)",
        "weight: (4, 4), torch.float32 on cpu, no gradient",
    ),
    "type of a buffer": (
        lambda r: Counting(FLOATS[r]),
        "count: (1,), torch.float32 on cpu, no gradient",
        "count: (1,), torch.float64 on cpu, no gradient",
    ),
    "no such buffer": (
        lambda r: Counting(None if r else torch.float32),
        "count: (1,), torch.float32 on cpu, no gradient",
        "nothing more",
    ),
}


@pytest.mark.parametrize(("build", "here", "there"), DIFFERENT.values(), ids=DIFFERENT)
def test_ranks_with_different_models_are_told_so(build, here, there):
    told = rf"rank 0 has {re.escape(here)}.*; in its place rank 1 has {re.escape(there)}"
    with pytest.raises(launch.RankError, match=told):
        launch.run(lambda: DDP(build(dist.get_rank())), 2)
