"""What the tests of the three ZeRO stages and of MiCS share, in a module that ranks can import."""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from mathlib.model import data, gpt, oracle
from mathlib.parallel.mics import Mics
from mathlib.parallel.zero1 import Zero1
from mathlib.parallel.zero2 import Zero2
from mathlib.parallel.zero3 import Zero3

BATCH, STEPS = 20, 3  # sequences: 3 ranks have unequal parts
MODEL = gpt.small(width=16, context=8, vocab=len(data.vocabulary()))


class Odd(nn.Module):
    """What a flat row must not stumble over: a tied pair in two layers, a frozen layer, a single
    number, a layer used twice, fewer numbers than ranks in a layer.
    """

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 1)
        self.first = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.tied = nn.Linear(5, 5)
        self.tied.weight = self.first.weight
        self.twice = nn.Linear(5, 5, bias=False)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        x = self.twice(self.frozen(self.first(x).tanh())).tanh()
        return self.last(self.twice(self.tied(x)).tanh()) * self.scale

    def layers(self):
        return [self.first, self.frozen, self.tied, self.twice, self.last]


def odd_batch(step):
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 5, generator=draw, dtype=torch.float64)
    return x, x.sin().sum(1, keepdim=True)


def mse(model, x, y):
    return F.mse_loss(model(x), y)


PROBLEMS = {
    "odd": (Odd, odd_batch, mse, Odd.layers),
    "gpt": (
        lambda: gpt.GPT(MODEL, seed=int(torch.initial_seed())),
        lambda step: data.batch(BATCH, 8, step),
        oracle.loss,
        lambda model: list(model.blocks),
    ),
}
PROBLEMS["branches"] = (None, None, None, lambda model: [])
STAGES = {1: partial(Zero1, bucket_bytes=600), 2: partial(Zero2, bucket_bytes=600), 3: Zero3}


def build(problem, seed):
    torch.manual_seed(seed)
    return PROBLEMS[problem][0]().double()


def sharded(stage, model, make, problem, **options):
    layers = [PROBLEMS[problem][3](model)] if stage in (3, "mics") else []
    return (Mics if stage == "mics" else STAGES[stage])(model, make, *layers, **options)


def weights(zero):
    """All trainable and frozen weights in one row, in the module's order."""
    if isinstance(zero, Zero3):
        whole = zero.full_weights()
        return torch.cat([whole[name].flatten() for name, _ in zero.module.named_parameters()])
    return oracle.flat_weights(zero.module)


def by_ranks(stage, problem, optimizer, clip=float("inf"), parts=1, **options):
    _, batch, loss, _ = PROBLEMS[problem]
    model = build(problem, seed=dist.get_rank())  # every rank starts elsewhere
    zero = sharded(stage, model, oracle.OPTIMIZERS[optimizer], problem, clip=clip, **options)
    history = []
    for step in range(STEPS):
        whole = batch(step)
        mine = oracle.my_part(whole)
        weight = oracle.my_weight(len(mine[0]), len(whole[0]))  # ranks may have one sequence more
        for part in zip(*(tensor.tensor_split(parts) for tensor in mine), strict=True):
            (weight * loss(model, *part) * len(part[0]) / len(mine[0])).backward()
        zero.step()
        history.append(weights(zero))
    return history


def by_one(problem, optimizer, clip=float("inf")):
    make, batch, loss, _ = PROBLEMS[problem]
    model = build(problem, seed=0)
    own = [p for p in model.parameters() if p.requires_grad]
    made = oracle.OPTIMIZERS[optimizer](own)
    return oracle.one_process(model, map(batch, range(STEPS)), made, loss, clip)
