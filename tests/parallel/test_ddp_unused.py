"""Parameters that get no gradient: reported, or counted as zero where that is meant."""

import copy
from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE
from small_models import EXACT, WAY, Branches
from torch import nn

from mathlib import launch
from mathlib.parallel import buckets, ddp
from mathlib.parallel.collectives import process_group_of
from mathlib.parallel.ddp import DDP


def test_parameters_that_never_arrive_are_named_and_nobody_hangs():
    def lost() -> None:
        model = DDP(Branches())
        model(torch.ones(1, 4), WAY[dist.get_rank() % 2]).sum().backward()

    with pytest.raises(launch.RankError) as caught:  # not a RankTimeout
        launch.run(lost, 2)
    assert not isinstance(caught.value, launch.RankTimeout)
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

    assert launch.run(average, 2, timeout=PATIENCE) == [[0.5, 0.5, 0.0]] * 2


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


class Twin(nn.Linear):
    """A layer whose output comes twice, once in a container that cannot be looked into."""

    def __init__(self, container):
        super().__init__(1, 1)
        self.container, self.other = container, nn.Linear(1, 1)

    def forward(self, x):
        return self.container(super().forward(x)), self.other(x)


def test_a_gradient_that_the_outputs_do_not_lead_to_is_an_error():
    def unforeseen() -> list[str]:
        model = DDP(Twin(lambda x: SimpleNamespace(x=x)), find_unused_parameters=True)
        said = []
        with pytest.raises(RuntimeError) as caught:  # in a container that cannot be looked into
            model(torch.ones(1, 1))[0].x.sum().backward()
        said.append(str(caught.value))
        model = DDP(Branches(), find_unused_parameters=True)
        with pytest.raises(RuntimeError) as caught:  # in the outputs of the forward before the last
            (
                model(torch.ones(1, 4), "left").sum() + model(torch.ones(1, 4), "right").sum()
            ).backward()
        return [*said, str(caught.value)]

    for told, name in zip(launch.run(unforeseen, 2)[0], ("", "left."), strict=True):
        assert told.startswith(name) and (
            "got a gradient, but what the last forward returned does not lead to it" in told
        )


@dataclass
class Outputs:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class ModelOutput(OrderedDict):
    """A dictionary with fields, as the Hugging Face library returns."""


CONTAINERS = {
    "dataclass": (lambda x: Outputs(x), lambda out: out.logits),
    "subclass of a dictionary": (lambda x: ModelOutput(logits=x), lambda out: out["logits"]),
    "one in the other": (lambda x: [ModelOutput(all=Outputs(x))], lambda o: o[0]["all"].logits),
}


@pytest.mark.parametrize(("container", "taken"), CONTAINERS.values(), ids=CONTAINERS)
def test_outputs_may_come_in_what_torchs_own_can_look_into(container, taken):
    def gradients() -> list[tuple]:
        found = []
        for wrap in (DDP, nn.parallel.DistributedDataParallel):
            torch.manual_seed(0)
            model = wrap(Wrapped(container), find_unused_parameters=True)
            x = torch.full((1, 4), 1.0 + dist.get_rank())
            taken(model(x, WAY[dist.get_rank()])).sum().backward()
            found.append([p.grad for p in model.module.parameters()])
        return [(a, b) for a, b in zip(*found, strict=True) if (a, b) != (None, None)]

    for pairs in launch.run(gradients, 2):
        assert len(pairs) == 6  # trunk, left, right
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs)


class Heads(Branches):
    """Two outputs."""

    def forward(self, x):
        x = self.trunk(x)
        return self.left(x), self.right(x)


def test_every_output_is_looked_at_and_one_may_stay_out_of_the_loss():
    def gradients(both: bool) -> list[float | None]:
        model = DDP(Heads(), find_unused_parameters=True, bucket_bytes=1, first_bucket_bytes=1)
        left, right = model(torch.ones(1, 4))
        (left.sum() * (1 + dist.get_rank()) + (right.sum() if both else 0)).backward()
        layers = model.module.left, model.module.right, model.module.spare
        return [None if layer.bias.grad is None else layer.bias.grad[0].item() for layer in layers]

    assert launch.run(gradients, 2, True) == [[1.5, 1.0, None]] * 2
    assert launch.run(gradients, 2, False) == [[1.5, None, None]] * 2


def test_outputs_without_any_parameter_are_an_error_and_no_wait():
    def nothing() -> None:
        model = DDP(Branches(), find_unused_parameters=True)
        if dist.get_rank():
            model.module.forward = lambda x, way: x.exp()
        model(torch.ones(1, 4, requires_grad=True), "left").sum().backward()

    with pytest.raises(launch.RankError, match="forward returned leads to no parameter at all"):
        launch.run(nothing, 2)


def test_a_group_asks_itself_who_used_a_parameter():
    def used() -> list[bool]:
        """Ranks 0 and 2 go left, 1 and 3 right: neither group has a gradient of the other's."""
        group, rank = process_group_of([[0, 2], [1, 3]]), dist.get_rank()
        model = DDP(Branches(), group, find_unused_parameters=True)
        model(torch.ones(1, 4), WAY[rank % 2]).sum().backward()
        return [layer.weight.grad is not None for layer in (model.module.left, model.module.right)]

    assert launch.run(used, 4) == [[True, False], [False, True]] * 2


def test_inside_no_sync_nothing_is_looked_for():
    def walks() -> list[int]:
        model, counts = DDP(Branches(), find_unused_parameters=True), []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                ddp, "reachable", lambda outputs: counts.append(1) or buckets.reachable(outputs)
            )
            with model.no_sync():
                model(torch.ones(1, 4), "left").sum().backward()
            model(torch.ones(1, 4), "left").sum().backward()
        return counts

    assert launch.run(walks, 1) == [[1]]
