"""Bytes of a data-parallel step: formula, program and operating system, to the byte."""

import sys
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel import collectives, ddp
from mathlib.traffic import comm, overlap

MODEL = gpt.small(width=32, context=16, vocab=len(data.vocabulary()))
HEADERS = 288  # bytes that gloo adds to each round of its ring


def by_our_ring(flat, group):
    collectives.ring_all_reduce(flat, group)
    done = torch.futures.Future()
    done.set_result(flat)
    return done


def sent_in_a_step(hook, count) -> float:
    model = ddp.DDP(gpt.GPT(MODEL), hook=hook)
    part = oracle.my_part(data.batch(12, MODEL.context))
    oracle.loss(model, *part).backward()
    value = oracle.loss(model, *part)  # the second step: in the first, buckets are rebuilt
    with count() as counted:
        value.backward()
    return counted.sent


@pytest.mark.parametrize("n", [2, 3, 4])
def test_three_counts_of_a_steps_bytes_agree(n):
    K = sum(p.nbytes for p in gpt.GPT(MODEL).parameters())
    formula = comm.sent("all-reduce", payload=K, ranks=n)
    program = launch.run(sent_in_a_step, n, by_our_ring, wire.counted)
    assert sum(program) / n == pytest.approx(formula, rel=1e-12)
    system = launch.run(sent_in_a_step, n, ddp.summed, wire.tcp)
    assert sum(system) / n == pytest.approx(formula + HEADERS * 2 * (n - 1), rel=1e-12)


def bucket_sizes(bucket_bytes: float) -> list[int]:
    model = gpt.GPT(gpt.small(layers=6, width=64, vocab=8, context=8))
    return [
        bucket.flat.nbytes
        for bucket in ddp.buckets_of(
            [p for block in reversed(model.blocks) for p in reversed(list(block.parameters()))],
            bucket_bytes,
            bucket_bytes,
        )
    ]


def test_the_formulas_buckets_are_those_that_the_program_fills():
    """Equal layers, a bucket of any size: as many messages, and the last one as large."""
    layer = sum(
        p.nbytes for p in gpt.GPT(gpt.small(width=64, vocab=8, context=8)).blocks[0].parameters()
    )
    sizes = [
        p.nbytes
        for p in reversed(
            list(gpt.GPT(gpt.small(width=64, vocab=8, context=8)).blocks[0].parameters())
        )
    ]
    for bucket in (1_000, 20_000, 70_000, layer, 3 * layer, 100 * layer):
        filled = bucket_sizes(bucket)
        plan = overlap.bucketed(
            layers=6,
            ranks=2,
            backward=1.0,
            payload=6 * layer,
            bucket=bucket,
            bandwidth=1e9,
            latency=0.0,
            tensors=sizes,
        )
        assert len(plan.buckets) == len(filled), bucket


LINK, MATRIX = {"bandwidth": 10e6, "latency": 0.02}, 4 * 512 * 512
BURST = 10 * 64 * 1024  # bytes that the kernel lets pass at first


def step_of_torchs_ddp(bucket: int, slow: bool) -> tuple[int, float]:
    """Buckets and seconds of a step of four matrices, from a barrier to the last rank's end."""
    inner = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))
    model, sizes = nn.parallel.DistributedDataParallel(inner, bucket_cap_mb=bucket / 2**20), []
    carry = slow_wires.all_reducer(latency=LINK["latency"] if slow else 0.0)

    def hook(state, bucket):
        sizes.append(bucket.buffer().nbytes)
        return carry(bucket.buffer().div_(dist.get_world_size()))

    model.register_comm_hook(None, hook)
    for _ in range(2):  # after the first, the buckets are packed anew
        value = model(torch.ones(1, 512)).sum()
        sizes.clear()
        dist.barrier()
        begin = time.perf_counter()
        with slow_wires.wires(bandwidth=LINK["bandwidth"] if slow else 1e12):
            value.backward()
    return len(sizes), time.perf_counter() - begin


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel holds the bandwidth")
@pytest.mark.parametrize("matrices", [1, 4])
def test_no_step_on_a_slow_wire_is_shorter_than_the_model(matrices):
    """A busy machine only adds, so this holds on any; and no slow wire, no such time."""
    bucket = matrices * MATRIX
    given = {"layers": 4, "ranks": 2, "backward": 1e-9, "payload": 4 * MATRIX, "bucket": bucket}
    model = overlap.bucketed(**given, **LINK)
    least = model.exposed - BURST / LINK["bandwidth"]
    for buckets, seconds in launch.run(step_of_torchs_ddp, 2, bucket, True):
        assert buckets == len(model.buckets) == 4 // matrices
        assert seconds > least
