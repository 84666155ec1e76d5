"""Plain DDP by the oracle of one process; its buckets leave while backward goes on."""

import pytest
import sharding

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.plain import ddp
from mathlib.traffic import volumes

WAYS = ("plain naive", "plain DDP")


def case(way, optimizer="SGD", parts=1):
    """`parts` micro-batches, which DDP wants to be told."""
    told = {"micro_batches": parts} if way == "plain DDP" else {}
    return {"stage": way, "problem": "gpt", "optimizer": optimizer, "parts": parts} | told


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    cases = [case(way, o, 1 + (o == "SGD")) for way in WAYS for o in oracle.OPTIMIZERS]
    assert not sharding.apart(ranks, cases)


@pytest.mark.parametrize("way", WAYS)
def test_without_the_average_or_the_broadcast_they_are_apart(way):
    def silent():
        ddp.Naive.average = ddp.DDP.average = lambda self: None
        return sharding.by_ranks(**case(way))

    def anywhere():
        ddp.dist.broadcast = lambda *_, **__: None
        return sharding.by_ranks(**case(way))

    *_, wanted = sharding.by_one("gpt", "SGD")
    for broken in (silent, anywhere):
        found = launch.run(broken, 2)
        assert oracle.distance([history[-1] for history in found], wanted) > 1e-6


def leaving():
    """How many gradients of the model were there when each bucket left."""
    model, there = sharding.build("gpt", 0), []
    ddp.DDP(model, oracle.OPTIMIZERS["SGD"], bucket_bytes=2000)
    begin = ddp.dist.all_reduce

    def seen(*args, **kwargs):
        there.append(sum(p.grad is not None for p in model.parameters()))
        return begin(*args, **kwargs)

    ddp.dist.all_reduce = seen
    oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
    return there, len(list(model.parameters()))


def test_buckets_leave_while_backward_goes_on():
    for there, whole in launch.run(leaving, 2):
        assert len(there) > 4 and there == sorted(there)
        assert there[0] < whole / 4 and there[-1] == whole


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_formula(ranks):
    parameters = sum(p.numel() for p in sharding.build("gpt", 0).parameters())
    wanted = volumes.zero(parameters=parameters, data=ranks, weight_bytes=8, gradient_bytes=8)
    for way in WAYS:
        found = launch.run(sharding.sent, ranks, way, shard=1)
        mean = sum(rank["program"] for rank in found) / ranks
        assert mean == pytest.approx(wanted.total, rel=1e-12)
        assert way == "plain DDP" or all(r["system"] == r["messages alone"] for r in found)
