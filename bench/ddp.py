"""A training step of the small GPT under our DDP and under PyTorch's."""

from collections.abc import Iterator

import rounds
import torch
from shapes import CONTEXT, SEQUENCES, shape
from torch.nn.parallel import DistributedDataParallel

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel import ddp
from mathlib.specs import Model


class Naive(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        ddp.broadcast([*module.parameters(), *module.buffers()])

    def forward(self, x):
        return self.module(x)


def step(wrapped, optimizer) -> None:
    optimizer.zero_grad()
    oracle.loss(wrapped, *data.batch(SEQUENCES, CONTEXT)).backward()
    if isinstance(wrapped, Naive):
        ddp.average_gradients(wrapped)
    optimizer.step()


def race(model: Model, quick: bool) -> tuple[rounds.Times, int]:
    wrappers = {
        "mini DDP": ddp.DDP,
        "torch DDP": DistributedDataParallel,
        "torch DDP, bucket views": lambda module: DistributedDataParallel(
            module, gradient_as_bucket_view=True
        ),
        "naive": Naive,
    }
    candidates, size = {}, 0
    for name, wrap in wrappers.items():
        wrapped = wrap(gpt.GPT(model))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)
        candidates[name] = lambda wrapped=wrapped, optimizer=optimizer: step(wrapped, optimizer)
        size = sum(p.nbytes for p in wrapped.parameters())
    return rounds.on_ranks(candidates, rounds=3 if quick else 60), size


def rows(quick: bool) -> Iterator[dict]:
    for n in (1, 2, 4):
        times, size = launch.run(race, n, shape(), quick, timeout=900)[0]
        label = f"GPT step, {size / 1e6:.0f} MB of gradients, {n} ranks"
        for pair in (
            ("mini DDP", "torch DDP"),
            ("mini DDP", "torch DDP, bucket views"),
            ("naive", "torch DDP"),
        ):
            yield rounds.row(label, times, *pair, ranks=n, bytes=size)
