"""What of a sharded training is saved and comes back; what does not fit is refused by name."""

from functools import partial

import pytest
import sharding
import torch
from patience import PATIENCE
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.model import gpt, oracle
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.stage1 import Zero1

on_ranks = partial(launch.run, timeout=PATIENCE)  # seconds of a busy machine
MODEL = gpt.small(width=16, context=8, vocab=64)


def test_master_weights_and_a_groups_options_come_back(tmp_path):
    def run(folder):
        def build(lr):
            model = gpt.GPT(MODEL, seed=0).bfloat16()
            make = lambda groups: torch.optim.Adam(groups, lr=lr)  # noqa: E731
            return Zero1(model, make, master=True)

        first, second = build(0.1), build(0.5)
        oracle.loss(first.module, *sharding.PROBLEMS["gpt"][1](0)).backward()
        first.step()
        checkpoint.resume(second, checkpoint.save(first, folder, 1))
        lr = second.optimizer.param_groups[0]["lr"]
        same = [torch.equal(first.shards[0].shard, second.shards[0].shard)]
        same += [torch.equal(*(oracle.flat_weights(zero.module) for zero in (first, second)))]
        return lr, second.shards[0].shard.dtype, same

    assert on_ranks(run, 2, str(tmp_path)) == [(0.1, torch.float32, [True, True])] * 2


def refusal(build, path) -> str:
    with pytest.raises(InputError) as refused:
        checkpoint.resume(build(), path)
    return str(refused.value)


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    def run(folder):
        adam, sgd = oracle.OPTIMIZERS["Adam"], oracle.OPTIMIZERS["SGD"]

        def changed(make=adam, groups=None, **parts):
            model = sharding.build("odd", 0)
            for name, part in parts.items():
                setattr(model, name, part)
            return Zero1(model, make, groups=groups and groups(model))

        wide, single = nn.Linear(5, 2).double(), nn.Linear(5, 1)

        def halves(model):
            every = list(model.parameters())
            return [{"params": every[:2]}, {"params": every[2:]}]

        path = checkpoint.save(changed(), folder, 1)
        return [
            refusal(lambda: changed(extra=nn.Linear(2, 2).double()), path),
            refusal(lambda: changed(scale=None), path),
            refusal(lambda: changed(last=wide), path),
            refusal(lambda: changed(last=single), path),
            refusal(lambda: changed(make=sgd), path),
            refusal(lambda: changed(groups=halves), path),
        ]

    (said,) = on_ranks(run, 1, str(tmp_path))
    wanted = ["extra.bias, extra.weight", "scale", "last", "float64", "Adam", "groups"]
    for sentence, word in zip(said, wanted, strict=True):
        assert word in sentence, sentence
    assert "only in the module" in said[0] and "only in the checkpoint" in said[1]
    assert "(1, 5)" in said[2] and "(2, 5)" in said[2]


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_a_save_between_backward_and_step_is_refused(stage, tmp_path):
    def run(folder):
        model = sharding.build("odd", 0)
        zero = sharding.sharded(stage, model, oracle.OPTIMIZERS["Adam"], "odd")
        sharding.mse(zero.module, *sharding.odd_batch(0)).backward()
        with pytest.raises(InputError, match="right after a step"):
            checkpoint.save(zero, folder, 1)

    on_ranks(run, 1, str(tmp_path))
