"""What the tests of the three ZeRO stages and of MiCS share, in a module that ranks can import."""

from functools import cache, partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import compression, ddp, local_sgd, mics, zero
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import volumes
from mathlib.trials.zero import whole_weights

BATCH, STEPS = 20, 3  # sequences: 3 ranks have unequal parts
MODEL = gpt.small(width=16, context=8, vocab=len(data.vocabulary()))


class Odd(nn.Module):
    """What a flat buffer must not stumble over: a tied pair in two layers, a frozen layer, a single
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

PLAIN = {
    "plain naive": lambda model, make, _, **kw: ddp.Naive(model, make, **kw),
    "plain DDP": lambda model, make, _, **kw: ddp.DDP(model, make, bucket_bytes=2000, **kw),
    "plain compressed": lambda model, make, _, **kw: compression.Compressed(model, make, **kw),
    "plain local steps": lambda model, make, _, **kw: local_sgd.LocalSteps(model, make, **kw),
    "plain mics": lambda *given, shard: mics.Mics(*given, *mics.groups(shard)),
} | {f"plain {stage}": partial(zero.Zero, stage=stage) for stage in (1, 2, 3)}


def build(problem, seed):
    torch.manual_seed(seed)
    return PROBLEMS[problem][0]().double()


def sharded(stage, model, make, problem, **options):
    if stage in PLAIN:
        options.pop("clip", None)  # no option of these
        return PLAIN[stage](model, make, PROBLEMS[problem][3](model), **options)
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
    way = sharded(stage, model, oracle.OPTIMIZERS[optimizer], problem, clip=clip, **options)
    history = []
    for step in range(STEPS):
        whole = batch(step)
        mine = oracle.my_part(whole)
        weight = oracle.my_weight(len(mine[0]), len(whole[0]))  # ranks may have one sequence more
        for part in zip(*(tensor.tensor_split(parts) for tensor in mine), strict=True):
            (weight * loss(model, *part) * len(part[0]) / len(mine[0])).backward()
        way.step()
        history.append(whole_weights(way, model) if stage in PLAIN else weights(way))
    return history


@cache
def by_one(problem, optimizer, clip=float("inf")):
    make, batch, loss, _ = PROBLEMS[problem]
    model = build(problem, seed=0)
    own = [p for p in model.parameters() if p.requires_grad]
    made = oracle.OPTIMIZERS[optimizer](own)
    return oracle.one_process(model, map(batch, range(STEPS)), made, loss, clip)


def histories(cases):
    return [by_ranks(**case) for case in cases]


def apart(ranks, cases):
    """The cases in which a rank, after any step, is not where one process is, and how far, which
    may be no number; one launch for all.
    """
    by_rank, found = launch.run(histories, ranks, cases), []
    for number, case in enumerate(cases):
        wanted = by_one(case["problem"], case["optimizer"], case.get("clip", float("inf")))
        steps = [torch.cat(history[number]) for history in by_rank]
        far = oracle.distance(steps, torch.cat(wanted))
        found += [] if far < oracle.EQUAL else [(far, case)]
    return found


def sent(stage, parts=1, shard=None, **options):
    """Bytes that this rank sends in a step by its program and by the system; a collective counts
    as if by a ring, of `shard` ranks if it gathers or scatters, of one rank a shard if it reduces.
    """
    model = build("gpt", 0)
    degree = {"shard": shard} if "mics" in str(stage) else {}
    way = sharded(stage, model, oracle.OPTIMIZERS["SGD"], "gpt", **degree, **options)
    N = dist.get_world_size()
    S, R = shard or N, N // shard if shard else N
    batch = [tensor[: 2 * parts] for tensor in PROBLEMS["gpt"][1](0)]
    for _ in range(2):  # connections are opened by the first
        with wire.tcp() as system, wire.counted() as program:
            for part in zip(*(tensor.split(2) for tensor in batch), strict=True):
                oracle.loss(model, *part).backward()
            way.step()
    told = program.payload
    once = (told["_allgather_base_"] + told["alltoall_base_"]) * (S - 1) / S
    return {
        "program": program.sent + once + 2 * told["allreduce_"] * (R - 1) / R,
        "system": system.sent,
        "messages alone": program.on_wire,
    }


def predicted(stage, ranks, parts=1, shard=None):
    """Bytes that a rank sends in a step, by the formula, of layers and rest as they are padded."""
    model, S = build("gpt", 0), shard or ranks
    sizes = [sum(p.numel() for p in block.parameters()) for block in model.blocks]
    sizes = [*sizes, sum(p.numel() for p in model.parameters()) - sum(sizes)]
    *layers, rest = (-(-size // S) * S for size in sizes)
    how = {"data": ranks, "stage": stage, "shard": S, "micro_batches": parts}
    how |= {"weight_bytes": 8, "gradient_bytes": 8}
    found = volumes.zero(parameters=sum(layers), **how)
    return found.total + volumes.zero(parameters=rest, keep_gathered=stage == 3, **how).total
