"""ZeRO's bytes on the wire: formula, program and operating system, to the byte; and its weights."""

import pytest
import sharding
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel import ddp
from mathlib.traffic import comm, volumes

SHAPE = gpt.small(layers=3, width=40, context=16, vocab=len(data.vocabulary()))  # no padding for 4


def step(stage, model, owner, m):
    batch = data.batch(2 * m, SHAPE.context, dist.get_rank())
    for i, part in enumerate(zip(*(t.chunk(m) for t in batch), strict=True)):
        if stage == 0 and i < m - 1:
            with owner.no_sync():
                (oracle.loss(owner, *part) / m).backward()
        else:
            (oracle.loss(owner if stage == 0 else model, *part) / m).backward()
    if stage:
        owner.step()


def counted(m):
    """By stage: bytes of the program's collectives, of the system without headers; and numbers
    that stay gathered.
    """
    found = {}
    for stage in range(4):
        model = gpt.GPT(SHAPE)
        make = oracle.OPTIMIZERS["Adam"]
        owner = sharding.sharded(stage, model, make, "gpt") if stage else ddp.DDP(model)
        step(stage, model, owner, m)
        with wire.sent() as sent:
            step(stage, model, owner, m)
        stay = sum(s.ranks * s.length for s in owner.rows[model]) if stage == 3 else 0
        rows = sum(s.ranks * s.length for s in owner.shards) if stage else 0
        found[stage] = (sent.program, sent.system, stay, rows)
    return found


@pytest.mark.parametrize(("n", "m"), [(2, 3), (4, 1)])
def test_three_counts_of_a_steps_bytes_agree(m, n):
    P = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
    for stage, (program, system, stay, rows) in launch.run(counted, n, m)[0].items():
        how = {"data": n, "stage": stage, "micro_batches": m}
        how |= {"weight_bytes": 4, "gradient_bytes": 4}
        formula = volumes.zero(parameters=(rows or P) - stay, **how).total
        if stay:
            formula += volumes.zero(parameters=stay, keep_gathered=True, **how).total
        assert program == formula, stage
        assert system == formula, stage


def test_gloos_own_reduce_scatter_sends_an_all_reduce():
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def run(numbers):
        row = torch.ones(numbers)
        with wire.tcp() as system:
            scatter(torch.empty(numbers // dist.get_world_size()), row)
        return system.sent

    headers = 4 * (wire.ANNOUNCED + wire.READY)  # as of an all-reduce, for each other rank
    for n in (2, 3, 4):
        sent = launch.run(run, n, 12_000)[0]
        assert sent - headers * (n - 1) == comm.sent("all-reduce", payload=48_000, ranks=n)
