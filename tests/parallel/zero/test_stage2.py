"""Stage 2: gradients leave during backward, and only the rank's pieces of them stay."""

import pytest
import sharding
import torch

from mathlib import launch
from mathlib.model import gpt, oracle
from mathlib.parallel.zero.flat_shards import Transfer
from mathlib.parallel.zero.stage2 import Zero2


def after_backward(bucket_bytes: int) -> dict:
    model = gpt.GPT(sharding.MODEL, seed=0)
    zero = Zero2(model, oracle.OPTIMIZERS["SGD"], bucket_bytes=bucket_bytes)
    in_flight, alive = [], []
    send = Zero2._send

    def seen(self, row):
        send(self, row)
        in_flight.append(len(self.sent))
        alive.append(sum(p.grad.nbytes for p in model.parameters() if p.grad is not None))

    Zero2._send = seen
    oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
    whole = sum(p.nbytes for p in model.parameters())
    kept = sum(s.shard.grad.nbytes for s in zero.shards)
    left = [p for p in model.parameters() if p.grad is not None]
    return {"whole": whole, "kept": kept, "left": len(left), "in flight": in_flight, "alive": alive}


def test_a_rank_keeps_its_pieces_and_no_gradient_else():
    for found in launch.run(after_backward, 4, 2000):
        padding = 4 * 4 * len(found["in flight"])
        assert found["whole"] / 4 <= found["kept"] <= found["whole"] / 4 + padding
        assert not found["left"]
        assert len(found["in flight"]) > 4 and max(found["in flight"]) == 2


def test_gradients_that_have_left_are_dropped_while_backward_goes_on():
    for small, one in zip(
        launch.run(after_backward, 2, 2000), launch.run(after_backward, 2, 10**9), strict=True
    ):
        assert one["alive"] == [0]  # one row leaves when all have come
        assert max(small["alive"]) < 0.3 * small["whole"]  # what has come waits for its bucket only


def test_rows_leave_in_the_order_in_which_backward_fills_them():
    def run():
        model = sharding.build("odd", 0)
        groups = [
            {"params": [p for p in model.parameters() if p.dim() > 1]},
            {"params": [p for p in model.parameters() if p.dim() < 2]},
        ]
        zero = Zero2(model, oracle.OPTIMIZERS["SGD"], groups=groups, bucket_bytes=1)
        return [name for s in zero.shards for name in s.names.values()]

    names = [name for name, p in sharding.build("odd", 0).named_parameters() if p.requires_grad]
    assert launch.run(run, 1) == [names[::-1]]


def test_a_second_backward_adds_to_the_first():
    def run(times):
        model = sharding.build("odd", 0)
        zero = Zero2(model, oracle.OPTIMIZERS["SGD"])
        for _ in range(times):
            sharding.mse(model, *sharding.odd_batch(0)).backward()
        return zero.shards[0].shard.grad

    (once,), (twice,) = launch.run(run, 1, 1), launch.run(run, 1, 2)
    assert torch.equal(twice, 2 * once)


class Broken(Exception):
    pass


def broken_off(stage: int, at: int) -> list[torch.Tensor]:
    """Weights after each step; in each, a backward breaks off after so many gradients."""
    model = sharding.build("odd", 0)
    zero = sharding.sharded(stage, model, oracle.OPTIMIZERS["SGD"], "odd")
    until = [0]

    def breaks(p):
        until[0] -= 1
        if not until[0]:
            raise Broken

    for p in zero.names:
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(breaks)
    history = []
    for step in range(sharding.STEPS):
        mine = oracle.my_part(sharding.odd_batch(step))
        sharding.mse(model, *mine).backward()  # a micro-batch of the step that will be lost
        until[0] = at
        with pytest.raises(Broken):
            sharding.mse(model, *mine).backward()
        with pytest.raises(RuntimeError, match="broke off"):
            zero.step()
        sharding.mse(model, *mine).backward()
        zero.step()
        history.append(sharding.weights(zero))
    return history


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("at", [1, 3, 6])
def test_after_a_backward_that_broke_off_the_step_begins_anew(stage, at):
    wanted = sharding.by_one("odd", "SGD")
    for history in launch.run(broken_off, 2, stage, at):
        for found, one in zip(history, wanted, strict=True):
            assert oracle.distance([found], one) < oracle.EQUAL


def test_forward_waits_for_the_rows_of_a_backward_that_broke_off():
    """Their memory is written to until they have arrived."""

    def run():
        model = sharding.build("odd", 0)
        zero = Zero2(model, oracle.OPTIMIZERS["SGD"], bucket_bytes=1)
        handle = model.first.bias.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sharding.mse(model, *sharding.odd_batch(0)).backward()
        handle.remove()
        left, waited = [scattering.work for _, scattering in zero.sent], []
        wait = Transfer.wait
        Transfer.wait = lambda self: (waited.append(self), wait(self))
        model(sharding.odd_batch(0)[0])
        return len(left) > 0 and waited == left

    assert launch.run(run, 2) == [True, True]


def test_a_second_backward_after_a_broken_one_is_refused():
    def run():
        model = sharding.build("odd", 0)
        Zero2(model, oracle.OPTIMIZERS["SGD"])
        loss = sharding.mse(model, *sharding.odd_batch(0))
        handle = model.first.bias.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward(retain_graph=True)
        handle.remove()
        with pytest.raises(RuntimeError, match="run forward again"):
            loss.backward()

    launch.run(run, 1)
