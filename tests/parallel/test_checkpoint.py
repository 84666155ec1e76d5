"""Sharded checkpoints: read by any number of ranks, bit for bit by as many, whole when killed."""

import os
import random
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import sharding
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from patience import PATIENCE
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import mathlib
from mathlib import launch
from mathlib.checks import InputError
from mathlib.model import gpt, oracle
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.stage1 import Zero1

on_ranks = partial(launch.run, timeout=PATIENCE)  # seconds of a busy machine
MODEL = gpt.small(width=16, context=8, vocab=64)


def sharded(stage: int, seed: int = 0, optimizer: str = "Adam", problem: str = "odd", **options):
    model = sharding.build(problem, seed)
    return sharding.sharded(stage, model, oracle.OPTIMIZERS[optimizer], problem, **options)


def train(zero, step: int) -> None:
    whole = sharding.odd_batch(step)
    mine = oracle.my_part(whole)
    (oracle.my_weight(len(mine[0]), len(whole[0])) * sharding.mse(zero.module, *mine)).backward()
    zero.step()


def save_all_stages(folder: str) -> None:
    for stage in sharding.STAGES:
        zero = sharded(stage, seed=dist.get_rank())
        for step in range(2):
            train(zero, step)
        checkpoint.save(zero, f"{folder}/{stage}", 2)


def resume_all_stages(folder: str) -> dict[tuple[int, int], torch.Tensor]:
    """Weights after a third step, of every stage, from the checkpoint of every stage."""
    found = {}
    for saved in sharding.STAGES:
        for stage in sharding.STAGES:
            zero = sharded(stage, seed=7 + dist.get_rank())
            step, _ = checkpoint.resume(zero, checkpoint.latest(f"{folder}/{saved}"))
            train(zero, step)
            found[saved, stage] = sharding.weights(zero)
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> str:
    """By two ranks, after two steps."""
    folder = tmp_path_factory.mktemp("saved")
    on_ranks(save_all_stages, 2, str(folder))
    return str(folder)


MICS = {"shard": 2, "whole_below": 6}  # biases stay whole on every rank


def save_replicas(folder: str) -> None:
    for stage, options in (("mics", MICS), (3, {})):
        zero = sharded(stage, seed=dist.get_rank(), **options)
        for step in range(2):
            train(zero, step)
        checkpoint.save(zero, f"{folder}/{stage}", 2)


def resume_replicas(folder: str, stage, **options) -> list[torch.Tensor]:
    found = []
    for saved in ("mics", 3):
        zero = sharded(stage, seed=7 + dist.get_rank(), **options)
        step, _ = checkpoint.resume(zero, checkpoint.latest(f"{folder}/{saved}"))
        train(zero, step)
        found.append(sharding.weights(zero))
    return found


def test_of_replicas_one_is_saved_and_any_way_of_sharding_goes_on(tmp_path):
    on_ranks(save_replicas, 4, str(tmp_path))
    *_, wanted = sharding.by_one("odd", "Adam")
    for ranks, stage, options in ((4, "mics", MICS), (2, 3, {})):
        for found in on_ranks(resume_replicas, ranks, str(tmp_path), stage, **options):
            assert oracle.distance(found, wanted) < oracle.EQUAL, stage
    for kind in ("mics", "3"):
        reader = dcp.FileSystemReader(checkpoint.latest(tmp_path / kind))
        saved = reader.read_metadata().state_dict_metadata.values()
        tensors = [tensor for tensor in saved if isinstance(tensor, TensorStorageMetadata)]
        boxes = sum(box.sizes.numel() for tensor in tensors for box in tensor.chunks)
        assert boxes == sum(tensor.size.numel() for tensor in tensors), kind  # each number once


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_of_any_stage_goes_on_from_two_ranks(saved, ranks):
    *_, wanted = sharding.by_one("odd", "Adam")
    for found in on_ranks(resume_all_stages, ranks, saved):
        assert len(found) == 9
        for pair, one in found.items():
            assert oracle.distance([one], wanted) < oracle.EQUAL, pair


def test_without_the_optimizers_states_the_weights_are_apart(saved):
    def run():
        checkpoint.make_states = lambda *_: None
        return resume_all_stages(saved)[1, 3]

    *_, wanted = sharding.by_one("odd", "Adam")
    assert oracle.distance(on_ranks(run, 2), wanted) > 1e-6


class Chancy(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(5, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.down(nn.functional.dropout(self.up(x).relu(), 0.3))


def losses(stage: int, folder: str, resumed: bool, chance: bool = True) -> list[float]:
    """Of steps 3 and 4, after a save or from it; data are shuffled and dropped at random."""
    rank = dist.get_rank()
    torch.manual_seed(rank + 100 * resumed)
    random.seed(rank + 100 * resumed)
    model = Chancy()
    layers = [[model.up, model.down]] if stage == 3 else []
    make = lambda groups: torch.optim.AdamW(groups, lr=0.05)  # noqa: E731
    zero = sharding.STAGES[stage](model, make, *layers)
    x, found = torch.linspace(-1, 1, 100).view(20, 5), []
    generators = torch.get_rng_state(), random.getstate()
    start, order = 0, list(range(20))
    if resumed:
        start, order = checkpoint.resume(zero, checkpoint.latest(folder))
        if not chance:
            torch.set_rng_state(generators[0])
    for step in range(start, 4):
        random.shuffle(order)
        mine = x[order][:6]
        loss = (model(mine) - mine.sum(1, keepdim=True)).square().mean()
        loss.backward()
        zero.step()
        found.append(loss.item())
        if step == 1 and not resumed:
            checkpoint.save(zero, folder, 2, order)
    return found[-2:]


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_resumed_losses_are_those_of_the_uninterrupted_run_bit_for_bit(stage, tmp_path):
    wanted = on_ranks(losses, 2, stage, str(tmp_path), False)
    assert on_ranks(losses, 2, stage, str(tmp_path), True) == wanted
    if stage == 1:  # other random numbers: the oracle can tell
        assert on_ranks(losses, 2, stage, str(tmp_path), True, False) != wanted


def test_a_plain_module_loads_it(saved):
    wanted = sharding.by_one("odd", "Adam")[1]
    for stage in sharding.STAGES:
        plain = sharding.build("odd", 5)
        plain.load_state_dict(checkpoint.weights(checkpoint.latest(f"{saved}/{stage}")))
        assert oracle.distance([oracle.flat_weights(plain)], wanted) < oracle.EQUAL


def fsdp2_reads(folder: str) -> list[torch.Tensor]:
    """Weights in PyTorch's own FSDP2 and in a plain module, both read by PyTorch's own loader."""
    model, plain = gpt.GPT(MODEL, seed=1), gpt.GPT(MODEL, seed=2)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    found = []
    for one in (model, plain):
        state = {"model": dict(one.named_parameters())}
        dcp.load(state, checkpoint_id=checkpoint.latest(folder))
        rows = [getattr(p, "full_tensor", lambda p=p: p)().flatten() for p in one.parameters()]
        found.append(torch.cat(rows).detach())
    return found


def test_pytorchs_own_loader_and_fsdp2_read_it(tmp_path):
    def run(folder):
        model = gpt.GPT(MODEL, seed=0)
        zero = Zero1(model, oracle.OPTIMIZERS["SGD"])
        checkpoint.save(zero, folder, 1)

    on_ranks(run, 3, str(tmp_path))
    wanted = oracle.flat_weights(gpt.GPT(MODEL, seed=0))
    for found in on_ranks(fsdp2_reads, 2, str(tmp_path)):
        assert all(torch.equal(one, wanted) for one in found)


def test_what_is_saved_in_the_background_is_the_state_it_was_asked_for(tmp_path):
    """The writer is held back until training has gone on by a step."""

    def run(folder):
        zero, gone_on, write = sharded(2), threading.Event(), checkpoint.write

        def later(*given):
            gone_on.wait()
            return write(*given)

        checkpoint.write = later
        with checkpoint.Background(zero, folder) as background:
            for step in range(3):
                train(zero, step)
                if step == 1:
                    background.save(2, {"read": step})
            gone_on.set()
        with checkpoint.Background(zero, folder) as background:
            background.save(3)
            background.save(4)  # waits for the one before
        again = sharded(3)
        found = checkpoint.resume(again, Path(folder) / "step-00000002")
        two = sharding.weights(again)
        train(again, 2)
        checkpoint.resume(zero, checkpoint.latest(folder))
        return found, two, sharding.weights(again), sharding.weights(zero)

    _, two, three = sharding.by_one("odd", "Adam")
    for found, at_two, at_three, last in on_ranks(run, 2, str(tmp_path)):
        assert found == (2, {"read": 1})
        assert oracle.distance([at_two], two) < oracle.EQUAL
        assert oracle.distance([at_three, last], three) < oracle.EQUAL
    assert checkpoint.latest(tmp_path).name == "step-00000004"


def test_what_goes_wrong_in_the_background_is_raised_by_the_next_call(tmp_path):
    def run(folder):
        zero = sharded(1)
        checkpoint.save(zero, folder, 1)
        with pytest.raises(InputError, match="step = 1"), checkpoint.Background(zero, folder) as b:
            b.save(1)

    on_ranks(run, 1, str(tmp_path))


def test_whenever_a_save_is_killed_the_checkpoint_before_is_whole(tmp_path):
    """Ranks kill themselves at fifty moments of their saves; each time two others resume, and
    find the weights of a run that nobody disturbed.
    """
    script = Path(__file__).parents[1] / "helpers" / "killed_saver.py"
    given = os.environ | {"PYTHONPATH": str(Path(mathlib.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore", str(script), str(tmp_path), "50", "0"]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("50 kills"), done.stdout


def test_the_latest_is_the_one_with_the_largest_step_that_has_its_name(tmp_path):
    assert checkpoint.latest(tmp_path) is None and checkpoint.latest(tmp_path / "none") is None
    for name in ("step-00000009", "step-100000000", "step-200000000.writing", "other-9"):
        (tmp_path / name).mkdir()
    assert checkpoint.latest(tmp_path).name == "step-100000000"
