"""What may stand between forward and backward, and what is refused because it would go wrong
unseen.
"""

import contextlib
import copy

import pytest
import torch
import torch.distributed as dist
from small_models import FLOATS, Chain, step
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


def test_two_forwards_may_come_before_their_two_backwards():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        outputs = [model(torch.full((1, 1), x + dist.get_rank())) for x in (1.0, 10.0)]
        for output in outputs:
            output.sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.5 + 10.5] * 2


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


def test_gradients_may_be_asked_for_with_their_graph():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        model(torch.full((1, 1), 2.0 * dist.get_rank())).square().sum().backward(create_graph=True)
        return model.module.bias.grad.item()

    means = launch.run(gradient, 2)
    assert means[0] == means[1] != 0


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


DIFFERENT = {
    "shape": (lambda r: nn.Linear(4, 4 + r), r"\('weight', \(4, 4\), .*", r"\('weight', \(5, 4\)"),
    "type": (
        lambda r: nn.Linear(4, 4, dtype=FLOATS[r]),
        r"\('weight', .*float32'\)",
        r"\('weight', .*float64'\)",
    ),
    "number": (
        lambda r: nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + r))),
        "None",
        r"\('1.weight'",
    ),
}


@pytest.mark.parametrize(("build", "here", "there"), DIFFERENT.values(), ids=DIFFERENT)
def test_ranks_with_different_models_are_told_so(build, here, there):
    with pytest.raises(launch.RankError, match=f"rank 0 has {here} where rank 1 has {there}"):
        launch.run(lambda: DDP(build(dist.get_rank())), 2)
