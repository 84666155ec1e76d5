"""After every optimizer step N ranks hold the weights one process gets on the whole batch, and what
makes it so.
"""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from patience import PATIENCE
from small_models import EXACT, Chain
from torch import nn

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel import ddp
from mathlib.parallel.collectives import process_group_of
from mathlib.parallel.ddp import DDP

BATCH = 12  # sequences: divides by 1, 2, 3 and 4 ranks
MODEL = gpt.small(width=32, context=16, vocab=len(data.vocabulary()))


class Mixed(nn.Module):
    """A tied pair, a frozen layer, and a layer that is defined first but used last."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 1)
        self.first = nn.Linear(6, 6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.tied = nn.Linear(6, 6)
        self.tied.weight = self.first.weight

    def forward(self, x):
        return self.last(self.tied(self.frozen(self.first(x).tanh())))


def mixed_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 6, generator=draw, dtype=torch.float64)
    return x, x.sin().sum(1, keepdim=True)


def mixed_loss(model, x, y):
    return F.mse_loss(model(x), y)


PROBLEMS = {
    "mixed": (Mixed, mixed_batch, mixed_loss),
    "gpt": (
        lambda: gpt.GPT(MODEL, seed=int(torch.initial_seed())),
        lambda s: data.batch(BATCH, 16, s),
        oracle.loss,
    ),
}


def build(problem: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return PROBLEMS[problem][0]().double()


def learning(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def by_one_process(problem: str, optimizer: str, steps: int, clip: float) -> list[torch.Tensor]:
    """The weights after each step of one process on the whole batch, from rank 0's seed."""
    _, batch, loss = PROBLEMS[problem]
    model = build(problem, seed=0)
    make = oracle.OPTIMIZERS[optimizer]
    return oracle.one_process(model, map(batch, range(steps)), make(learning(model)), loss, clip)


def by_ddp(problem: str, optimizer: str, steps: int, clip: float, way: str) -> list[torch.Tensor]:
    _, batch, loss = PROBLEMS[problem]
    model = build(problem, seed=dist.get_rank())  # every rank starts elsewhere
    if way == "naive":
        ddp.broadcast([*model.parameters(), *model.buffers()])
        wrapped = model
    else:
        wrapped = DDP(model, bucket_bytes=2000, first_bucket_bytes=300)
    opt, history = oracle.OPTIMIZERS[optimizer](learning(model)), []
    for step in range(steps):
        x, y = oracle.my_part(batch(step))
        opt.zero_grad(set_to_none=way != "zeros")
        if way == "accumulation":
            parts = list(zip(x.tensor_split(3), y.tensor_split(3), strict=True))
            parts = [(a, b) for a, b in parts if len(a)]
            with wrapped.no_sync():
                for a, b in parts[:-1]:
                    (loss(wrapped, a, b) * len(a) / len(x)).backward()
            a, b = parts[-1]
            (loss(wrapped, a, b) * len(a) / len(x)).backward()
        elif way == "silent":
            with wrapped.no_sync():
                loss(wrapped, x, y).backward()
        else:
            loss(wrapped, x, y).backward()
            if way == "naive":
                ddp.average_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        history.append(oracle.flat_weights(model))
    return history


STEPS = 4
WAYS = ["buckets", "naive", "accumulation", "zeros"]


@pytest.mark.parametrize(("n", "optimizer"), [(1, "SGD"), (2, "Adam"), (3, "SGD"), (4, "Adam")])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_ranks_hold_what_one_process_gets(problem, optimizer, n):
    def all_ways() -> tuple[float, float]:
        clip = 0.05  # well below the gradients' norm, so that clipping does something
        expected = by_one_process(problem, optimizer, STEPS, clip)
        for way in WAYS:
            history = by_ddp(problem, optimizer, STEPS, clip, way)
            for step, (want, got) in enumerate(zip(expected, history, strict=True)):
                torch.testing.assert_close(got, want, **EXACT, msg=f"{way}, step {step}")
        moved = oracle.distance([expected[-1]], expected[0])
        silent = by_ddp(problem, optimizer, STEPS, clip, "silent")
        apart = oracle.distance([silent[-1]], expected[-1])
        return moved, apart

    for moved, apart in launch.run(all_ways, n):
        assert moved > 1e-3, "training did something"
        assert (apart > 1e-4) == (n > 1), (
            "and without the all-reduce it would have done something else"
        )


def test_everyone_starts_from_rank_0():
    def start() -> list[torch.Tensor]:
        torch.manual_seed(dist.get_rank())
        model = nn.Sequential(
            nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3).requires_grad_(False)
        )
        model[1].running_mean += dist.get_rank()
        model[1].num_batches_tracked += dist.get_rank()
        if dist.get_rank():
            before = [t.clone() for t in model.state_dict().values()]
            DDP(model)
            assert not all(map(torch.equal, before, model.state_dict().values()))
        else:
            DDP(model)
        return list(model.state_dict().values())

    first, *others = launch.run(start, 3)
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_a_group_averages_among_itself():
    def mean(way: str) -> tuple[float, float]:
        """The weight this rank starts from, and the gradient, which is its input's mean."""
        group = process_group_of([[0, 3, 4], [1, 2]])
        x = torch.full((1, 1), float(dist.get_rank()))
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, dist.get_rank())
        wrapped = (
            model
            if way == "naive"
            else DDP(model, group, find_unused_parameters=way == "find unused")
        )
        for _ in range(2):
            model.zero_grad()
            wrapped(x).sum().backward()
            if way == "naive":
                ddp.average_gradients(model, group)
        return model.weight.item(), round(model.weight.grad.item(), 5)

    for way in ("buckets", "find unused", "naive"):
        started, means = zip(*launch.run(mean, 5, way, timeout=PATIENCE), strict=True)
        assert means == (2.33333, 1.5, 1.5, 2.33333, 2.33333), way
        assert started == ((0, 1, 2, 3, 4) if way == "naive" else (0, 1, 1, 0, 0)), way


def test_a_group_takes_its_own_first_ranks_buffers():
    def statistics() -> float:
        group = process_group_of([[0, 3, 4], [1, 2]])
        model = DDP(nn.Sequential(nn.BatchNorm1d(1)), group)
        model.module[0].running_mean.fill_(10.0 * dist.get_rank())
        with torch.no_grad():
            model(torch.zeros(2, 1))  # moves a tenth of the way to its zero
        return round(model.module[0].running_mean.item(), 5)

    means = launch.run(statistics, 5)
    # whoever's batch moves them, they stood where the first of the group stood
    assert means == [0.0, 9.0, 9.0, 0.0, 0.0]


def test_a_mean_fits_where_a_sum_would_overflow():
    def mean() -> float:
        layer = nn.Linear(1, 1, bias=False).half()
        DDP(layer)(torch.full((1, 1), 40000.0).half()).sum().backward()
        return layer.weight.grad.item()

    assert launch.run(mean, 2) == [40000.0] * 2  # fp16 ends at 65504


def test_checkpointed_layers_get_the_same_gradients():
    def gradients(recompute: str) -> list[torch.Tensor]:
        model = DDP(gpt.GPT(MODEL, recompute=recompute), bucket_bytes=20_000)
        for number in range(2):
            model.zero_grad()
            x, y = oracle.my_part(data.batch(BATCH, 16, number))
            oracle.loss(model, x, y).backward()
        return [p.grad.clone() for p in model.module.parameters()]

    def both() -> None:
        assert all(map(torch.equal, gradients("none"), gradients("full")))

    launch.run(both, 2)


def test_buffers_follow_rank_0_in_training_and_rest_in_evaluation():
    def follow() -> tuple[list[float], list[float]]:
        model = DDP(nn.Sequential(nn.BatchNorm1d(1)))
        model(
            torch.full((2, 1), 10.0 * dist.get_rank())
        )  # each rank's statistics move their own way
        model(torch.zeros(2, 1))  # and are overwritten by rank 0's before they move again
        training = model.module[0].running_mean.tolist()
        model.eval()
        if dist.get_rank() == 0:  # a rank may evaluate alone
            model(torch.zeros(2, 1))
        model.module[0].running_mean += dist.get_rank()
        return training, model.module[0].running_mean.tolist()

    assert launch.run(follow, 2) == [([0.0], [0.0]), ([0.0], [1.0])]


def test_it_does_what_torchs_own_does():
    def both() -> None:
        torch.manual_seed(0)
        models = [Chain(), Chain()]
        models[1].load_state_dict(models[0].state_dict())
        own, theirs = DDP(models[0]), nn.parallel.DistributedDataParallel(models[1])
        for number in range(3):
            x = torch.randn(
                4, 8, generator=torch.Generator().manual_seed(10 * number + dist.get_rank())
            )
            for model in (own, theirs):
                with model.no_sync():
                    model(x).square().sum().backward()
                model(x.flip(0)).square().sum().backward()
            for (name, p), q in zip(
                models[0].named_parameters(), models[1].parameters(), strict=True
            ):
                torch.testing.assert_close(p.grad, q.grad, msg=name)
            with torch.no_grad():
                for model in models:
                    for p in model.parameters():
                        p -= 0.001 * p.grad
                        p.grad = None

    launch.run(both, 3)


def test_unequal_parts_need_their_weights():
    def weighted() -> tuple[float, float]:
        rank, n = dist.get_rank(), dist.get_world_size()
        x, y = mixed_batch(0)
        torch.manual_seed(0)
        model = Mixed().double()
        twin = copy.deepcopy(model)
        wrapped = DDP(model)
        a, b = (
            x.tensor_split([5])[rank],
            y.tensor_split([5])[rank],
        )  # 5 rows for rank 0, 7 for rank 1
        gradients = []
        for weight in (n * len(a) / BATCH, 1.0):
            model.zero_grad()
            (mixed_loss(wrapped, a, b) * weight).backward()
            gradients.append(model.last.weight.grad.clone())
        mixed_loss(twin, x, y).backward()
        return [(g - twin.last.weight.grad).abs().max().item() for g in gradients]

    for right, wrong in launch.run(weighted, 2):
        assert right < 1e-12 and wrong > 1e-4
