"""A run that loses ranks and goes on with fewer, or with a spare in the dead one's place.

The batch of a step is M micro-batches, whoever is there: N ranks share them, each accumulates its
own, and the gradients are added up over the ranks. So fewer ranks train on the same batches in the
same order. They load the last checkpoint, whose shards are cut anew for as many as there are.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.stage1 import Zero1

SHAPE = gpt.small(layers=2, width=16, context=8, vocab=len(data.vocabulary()))
MICRO_BATCHES = 12  # of a batch, of one sequence each


class Life(NamedTuple):
    """Ranks that train until one of them is killed, or until the end."""

    ranks: int
    dies: int | None = None  # in the backward of this step, the first is 0: its last rank


class Run(NamedTuple):
    """Steps, and who takes them."""

    lives: Sequence[Life]
    optimizer: str = "Adam"
    steps: int = 6
    every: int = 2  # steps from one checkpoint to the next
    kept: bool = True  # the batch; else each rank takes as much as it did at first


def batch(step: int) -> list[Tensor]:
    """Tokens and targets of all micro-batches."""
    return list(data.batch(MICRO_BATCHES, SHAPE.context, step))


def _train(run: Run, life: int, folder: Path) -> None:
    """One life of a rank; it writes down its weights after every step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = gpt.GPT(SHAPE, seed=rank if life else 0).double()
    make: Any = oracle.OPTIMIZERS[run.optimizer]
    zero = Zero1(model, make, sums=True)
    path = checkpoint.latest(folder / "saves")
    begin = checkpoint.resume(zero, path)[0] if path else 0
    shares = ranks if run.kept else run.lives[0].ranks
    for step in range(begin, run.steps):
        parts = [whole.tensor_split(shares)[rank].split(1) for whole in batch(step)]
        for tokens, targets in zip(*parts, strict=True):
            (oracle.loss(model, tokens, targets) / MICRO_BATCHES).backward()
        if run.lives[life].dies == step and rank == ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        zero.step()
        torch.save(oracle.flat_weights(model).clone(), folder / f"{life} {step} {rank}.weights")
        if (step + 1) % run.every == 0:
            checkpoint.save(zero, folder / "saves", step + 1)


def played(run: Run, folder: Path) -> list[dict[int, list[Tensor]]]:
    """Weights by life, step and rank, as the ranks wrote them down."""
    folder.mkdir(parents=True)
    for number, life in enumerate(run.lives):
        try:
            launch.run(_train, life.ranks, run, number, folder, echo=False)
        except launch.RankError as error:
            if "SIGKILL" not in error.failures.get(life.ranks - 1, ""):
                raise
    found: list[dict[int, list[Tensor]]] = [{} for _ in run.lives]
    for file in sorted(folder.glob("*.weights")):
        number, step, _ = map(int, file.stem.split())
        found[number].setdefault(step, []).append(torch.load(file))
    return found


def one_process(run: Run) -> list[Tensor]:
    """Weights after each step of one process on whole batches."""
    model = gpt.GPT(SHAPE, seed=0).double()
    optimizer = oracle.OPTIMIZERS[run.optimizer](model.parameters())
    return oracle.one_process(model, map(batch, range(run.steps)), optimizer)


class Row(NamedTuple):
    """A life beside one process, and beside the first life's ranks if nobody had died."""

    ranks: int
    begin: int  # the first step that it took
    end: int  # one more than the last
    micro_batches: int  # of a step, the most that a rank accumulated
    far: float  # from one process, the largest of any weight after any step
    same_bits: bool  # as the ranks that nobody killed, after every step


def compared(run: Run, folder: Path) -> list[Row]:
    """Play a run with its deaths and without, and compare the weights after each step."""
    wanted, lives = one_process(run), played(run, folder / "killed")
    alone = run._replace(lives=[Life(run.lives[0].ranks)])
    (whole,) = played(alone, folder / "whole")
    rows = []
    for life, found in zip(run.lives, lives, strict=True):
        far = max(oracle.distance(found[step], wanted[step]) for step in found)
        same = all(one.equal(whole[step][0]) for step in found for one in found[step])
        each = -(-MICRO_BATCHES // life.ranks)
        rows.append(Row(life.ranks, min(found), max(found) + 1, each, far, same))
    return rows
