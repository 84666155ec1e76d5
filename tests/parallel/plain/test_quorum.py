"""What the quorum sends and refuses; tests/trials/test_unequal_quorum.py kills replicas."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain.quorum import Quorum

SHAPE = gpt.small(width=16, context=8, vocab=len(data.vocabulary()))


def sent(port):
    rank, N = dist.get_rank(), dist.get_world_size()
    model = gpt.GPT(SHAPE, seed=rank)
    store = dist.TCPStore("127.0.0.1", port)
    way = Quorum(model, oracle.OPTIMIZERS["SGD"], store, rank, N)
    oracle.loss(model, *data.batch(1, SHAPE.context)).backward()
    with wire.counted() as counted:
        way.step()
    return way.steps, float(counted.passed), dict(counted.calls)


@pytest.mark.parametrize("N", [2, 3])
def test_a_step_sends_an_all_reduce_of_the_gradient_and_a_number_a_replica(N):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    P = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
    wanted = 2 * 4 * (P + N) * (N - 1) / N
    for steps, passed, calls in launch.run(sent, N, store.port):
        assert steps == 1 and passed == pytest.approx(wanted)
        assert calls == {"allreduce_": 1}, "nobody is behind, so nobody is healed"


def test_who_comes_when_all_others_have_died_does_not_begin_anew():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store.set("begun", "yes")
    with pytest.raises(AssertionError, match="nobody has weights"):
        Quorum(torch.nn.Linear(2, 2), oracle.OPTIMIZERS["SGD"], store, 0, 1)
