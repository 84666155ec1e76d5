"""What is refused because it would go wrong unseen."""

import copy
import re
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from small_models import FLOATS, Chain, step
from torch import nn

from mathlib import launch
from mathlib.model.mixed_adam import MixedAdam
from mathlib.parallel.ddp import DDP


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
