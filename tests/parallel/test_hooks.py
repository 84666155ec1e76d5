"""Codes as hooks of our DDP and of torch's."""

import pytest
import sharding
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.ddp import DDP
from mathlib.parallel.hooks import Hook
from mathlib.parallel.plain.compression import Fp16, Full, Int8, PowerSGD, Sign

BACKWARDS = 3
BUCKET = 4000  # bytes: several buckets


def gradients(wrapped, hook=None):
    """After each backward, in the module's order."""
    history = []
    for step in range(BACKWARDS):
        wrapped.zero_grad()
        x, y = oracle.my_part(sharding.PROBLEMS["gpt"][1](step))
        wrapped(x).mul(torch.arange(1, 1 + sharding.MODEL.vocab)).square().mean().backward()
        history.append([p.grad.clone() for p in wrapped.module.parameters()])
    return history, hook and len(hook.ours), hook and len(hook.torchs)


def ours(code):
    model, hook = sharding.build("gpt", 0), {"hook": Hook(code)} if code else {}
    return gradients(
        DDP(model, bucket_bytes=BUCKET, first_bucket_bytes=BUCKET, **hook), *hook.values()
    )


def torchs(code):
    wrapped = DistributedDataParallel(sharding.build("gpt", 0), bucket_cap_mb=BUCKET / 2**20)
    if code is None:
        wrapped.register_comm_hook(None, fp16_compress_hook)
        return gradients(wrapped)
    hook = Hook(code)
    wrapped.register_comm_hook(None, hook.of_torch)
    return gradients(wrapped, hook)


def many(way, codes):
    return [way(code) for code in codes]


def flat(history):
    return torch.cat([g.flatten() for g in history])


def test_uncompressed_is_the_usual_hook_and_fp16_is_torchs():
    for way, code in ((ours, Full), (torchs, Fp16)):
        for (usual, *_), (found, *_) in launch.run(many, 2, way, [None, code]):
            for a, b in zip(usual, found, strict=True):
                near = 2**-10 if code is Fp16 else 0  # torch rounds, then divides: tiny ones differ
                torch.testing.assert_close(flat(b), flat(a), rtol=near, atol=2 * near * 2**-14)


@pytest.mark.parametrize("way", [ours, torchs])
def test_a_bucket_keeps_what_its_code_left_out(way):
    codes = [Full, Int8, Sign, PowerSGD]
    by_rank = launch.run(many, 2, way, codes)
    for number, code in enumerate(codes):
        (mine, *codes_of), (theirs, *_) = (rank[number] for rank in by_rank)
        exact = by_rank[0][0][0]
        for a, b, wanted in zip(mine, theirs, exact, strict=True):
            assert torch.equal(flat(a), flat(b)), "one mean"
            if code is not Full:
                assert not torch.equal(flat(a), flat(wanted))
        assert 2 < max(codes_of) < 40


def left_out(way):
    """How far the mean of a hook's gradients is from the exact one after each of many equal
    backwards.
    """
    hook = Hook(Int8)
    model = torch.nn.Linear(64, 64, bias=False).double()
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(dist.get_rank())).double()
    if way == "ours":
        wrapped = DDP(model, hook=hook)
    else:
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(None, hook.of_torch)
    found, total = [], torch.zeros(64, 64).double()
    for _ in range(30):
        wrapped.zero_grad()
        wrapped(x).sum().backward()
        total += model.weight.grad
        found.append(total / (len(found) + 1))
    mine = x.sum(0).expand(64, 64).clone()
    dist.all_reduce(mine)
    return [(mean - mine / 2).abs().max().item() for mean in found]


@pytest.mark.parametrize("way", ["ours", "torch's"])
def test_so_the_mean_of_many_gets_exact(way):
    for far in launch.run(left_out, 2, way):
        assert far[-1] < far[0] / 5


class Broken(Full):
    def __call__(self, x):
        raise ZeroDivisionError("no code")


def test_an_error_of_a_code_is_raised_where_the_gradients_are_waited_for():
    with pytest.raises(launch.RankError, match="no code"):
        launch.run(ours, 1, Broken)
