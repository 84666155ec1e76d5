"""Parameters that get no gradient: reported, or counted as zero where that is meant."""

import copy
import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from small_models import EXACT, WAY, Branches
from torch import nn

from mathlib import launch
from mathlib.parallel import ddp
from mathlib.parallel.ddp import DDP


def test_parameters_that_never_arrive_are_named_and_nobody_hangs():
    def lost() -> None:
        model = DDP(Branches())
        model(torch.ones(1, 4), WAY[dist.get_rank() % 2]).sum().backward()

    begin = time.monotonic()
    with pytest.raises(launch.RankError) as caught:
        launch.run(lost, 2, timeout=30)
    assert time.monotonic() - begin < 10
    told = "\n".join(caught.value.failures.values())
    assert "MissingGradients: 4 of 8 parameters got no gradient in this backward" in told
    assert "right.bias, right.weight, spare.bias, spare.weight" in told
    assert "left.bias, left.weight, spare.bias, spare.weight" in told
    assert "find_unused_parameters=True" in told


def test_after_a_failed_backward_the_next_one_works():
    def again() -> list[str]:
        model = DDP(Branches())
        with pytest.raises(ddp.MissingGradients) as caught:
            model(torch.ones(1, 4), "left").sum().backward()
        model.zero_grad()
        sum(model(torch.ones(1, 4), way).sum() for way in ("left", "right", "spare")).backward()
        return caught.value.names

    assert launch.run(again, 1) == [["right.bias", "right.weight", "spare.bias", "spare.weight"]]


def test_the_naive_way_counts_a_gradient_that_is_missing_as_zero():
    def average() -> tuple[float, float]:
        model = Branches()
        model(torch.ones(1, 4), WAY[dist.get_rank()]).sum().backward()
        ddp.average_gradients(model)
        return [p.grad[0].item() for p in (model.left.bias, model.right.bias, model.spare.bias)]

    assert launch.run(average, 2, timeout=10) == [[0.5, 0.5, 0.0]] * 2


def with_branches(accumulate: bool) -> tuple[dict, dict]:
    """Weights of N ranks with unused parameters, and of one process that takes each row down its
    own branch.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Branches().double()
    twin = copy.deepcopy(model)
    wrapped = DDP(model, find_unused_parameters=True, bucket_bytes=200, first_bucket_bytes=100)
    a, b = (torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.5) for m in (model, twin))
    for number in range(3):
        rows = torch.randn(
            n, 4, generator=torch.Generator().manual_seed(number), dtype=torch.float64
        )
        ways = [
            WAY[(r + number) % 2] if number else "left" for r in range(n)
        ]  # in step 0 nobody goes right
        a.zero_grad()
        b.zero_grad()
        if accumulate:
            with wrapped.no_sync():
                wrapped(rows[rank : rank + 1], "right").sum().backward()
            (sum(twin(row[None], "right").sum() for row in rows) / n).backward()
        wrapped(rows[rank : rank + 1], ways[rank]).sum().backward()
        (
            sum(twin(row[None], way).sum() for row, way in zip(rows, ways, strict=True)) / n
        ).backward()
        assert model.spare.weight.grad is None, "used nowhere: the optimizer must not decay it"
        assert (model.right.weight.grad is None) == (twin.right.weight.grad is None)
        a.step()
        b.step()
    return dict(model.named_parameters()), dict(twin.named_parameters())


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_unused_parameters_train_as_in_one_process(n, accumulate):
    for got, want in launch.run(with_branches, n, accumulate):
        for name in want:
            torch.testing.assert_close(got[name], want[name], **EXACT)


class Wrapped(Branches):
    """Branches whose output comes in a container."""

    def __init__(self, container):
        super().__init__()
        self.container = container

    def forward(self, x, way: str):
        return self.container(super().forward(x, way))


def test_outputs_may_be_nested_and_evaluated_in_between():
    def gradients() -> list[float | None]:
        model = DDP(Wrapped(lambda x: {"all": [(x, None)]}), find_unused_parameters=True)
        outputs = model(torch.ones(1, 4), "left")
        with torch.no_grad():
            model(torch.ones(1, 4), "right")
        outputs["all"][0][0].sum().backward()
        return [
            layer.bias.grad if layer.bias.grad is None else layer.bias.grad[0].item()
            for layer in (model.module.left, model.module.right, model.module.spare)
        ]

    assert launch.run(gradients, 2) == [[1.0, None, None]] * 2


def test_a_parameter_may_be_an_output():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1), find_unused_parameters=True)
        model.module.forward = lambda x: (x @ model.module.weight, model.module.bias)
        sum(output.sum() * (1 + dist.get_rank()) for output in model(torch.ones(1, 1))).backward()
        return model.module.bias.grad.item()

    assert launch.run(gradient, 2) == [1.5, 1.5]


def test_a_gradient_that_the_outputs_do_not_lead_to_is_an_error():
    def unforeseen() -> list[str]:
        model = DDP(Wrapped(lambda x: SimpleNamespace(x=x)), find_unused_parameters=True)
        said = []
        with pytest.raises(RuntimeError) as caught:  # in a container that cannot be looked into
            model(torch.ones(1, 4), "left").x.sum().backward()
        said.append(str(caught.value))
        with pytest.raises(RuntimeError) as caught:  # in the outputs of the forward before the last
            model.module.container = lambda x: x
            (
                model(torch.ones(1, 4), "left").sum() + model(torch.ones(1, 4), "right").sum()
            ).backward()
        return [*said, str(caught.value)]

    for told in launch.run(unforeseen, 2)[0]:
        assert (
            "left." in told
            and "got a gradient, but what the last forward returned does not lead to it" in told
        )
