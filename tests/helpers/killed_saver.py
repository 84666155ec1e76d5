"""Training that is killed in the middle of saving, again and again, and goes on from what is there.

    python killed_saver.py <folder> <times> <seed>

Each time two ranks resume from the latest checkpoint, train a step and save: at a moment that
chance picks among all calls and returns of this save, one of them kills itself, and the other is
killed as soon as that is seen. Every fifth time, a step whose save is left alone comes first.
Ranks are forked from this process, which has imported torch.
"""

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # what makes the first optimizer slow
import torch.distributed as dist
from torch import nn

from mathlib.parallel import checkpoint
from mathlib.parallel.zero.stage2 import Zero2

RANKS = 2


def build() -> Zero2:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))
    for p in model.parameters():
        nn.init.constant_(p, 0.1)
    return Zero2(model, lambda groups: torch.optim.Adam(groups, lr=0.1))


def train(zero: Zero2, step: int) -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
    zero.module(x).square().mean().backward()
    zero.step()


def undisturbed(folder: Path, steps: int) -> None:
    """What the weights are after each step; and how many events each rank's save has."""
    zero, history = build(), []
    for step in range(steps):
        train(zero, step)
        history.append([p.detach().clone() for p in zero.module.parameters()])
    checkpoint.resume(zero, checkpoint.save(zero, folder, 1))  # the first time imports more
    moments = Moments(-1)
    moments.watch(lambda: checkpoint.save(zero, folder, 2))
    torch.save((history, moments.seen), folder / f"rank-{dist.get_rank()}")


class Moments:
    """Counts the calls and returns of Python code, and ends this process at one of them."""

    def __init__(self, last: int):
        self.seen, self.last = 0, last

    def watch(self, work: Callable[[], object]) -> None:
        sys.setprofile(self._count)
        work()
        sys.setprofile(None)

    def _count(self, *_: object) -> None:
        self.seen += 1
        if self.seen == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def go_on(folder: Path, alone: bool, last: int) -> None:
    """Resume, perhaps a step and its save, a step and a save that does not come to its end."""
    zero = build()
    found = checkpoint.latest(folder)
    step, _ = checkpoint.resume(zero, found) if found else (0, None)
    if alone:
        train(zero, step)
        step += 1
        checkpoint.save(zero, folder, step)
    train(zero, step)
    Moments(last).watch(lambda: checkpoint.save(zero, folder, step + 1))


def fork(rank: int, meet: Path, work: Callable[[], None]) -> int:
    if child := os.fork():
        return child
    try:
        store = dist.FileStore(str(meet), RANKS)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
        work()
        dist.barrier()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check(folder: Path, history: list[list[torch.Tensor]]) -> int:
    """The step of the latest checkpoint, whose weights must be those of undisturbed training."""
    found = checkpoint.latest(folder)
    if not found:
        return 0
    step = int(found.name.removeprefix("step-"))
    held = checkpoint.weights(found)
    for (name, mine), wanted in zip(
        sorted(held.items()), sorted_like(history[step - 1]), strict=True
    ):
        assert torch.equal(mine, wanted), f"step {step}: {name} is not what it was"
    return step


def sorted_like(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """In the order of the names 0.bias, 0.weight, 1.bias, 1.weight."""
    weight, bias, weight1, bias1 = parameters
    return [bias, weight, bias1, weight1]


def main(folder: Path, times: int, seed: int) -> None:
    torch.set_num_threads(1)
    before, runs = folder / "undisturbed", folder / "runs"
    before.mkdir()
    work = [
        fork(rank, folder / "meet", lambda: undisturbed(before, 3 * times)) for rank in range(RANKS)
    ]
    assert [ended(pid) for pid in work] == [0] * RANKS
    told = [torch.load(before / f"rank-{rank}") for rank in range(RANKS)]
    history, draw = told[0][0], random.Random(seed)
    step = left = kills = number = 0
    while kills < times:
        alone = number % 5 == 0
        number += 1
        victim = draw.randrange(RANKS)
        last = [-1] * RANKS
        last[victim] = draw.randint(1, told[victim][1])
        meet = folder / f"meet-{number}"
        ranks = [fork(r, meet, partial(go_on, runs, alone, last[r])) for r in range(RANKS)]
        killed = ended(ranks[victim]) == -signal.SIGKILL  # else it was done before its moment
        kills += killed
        os.kill(ranks[1 - victim], signal.SIGKILL)
        ended(ranks[1 - victim])
        now = check(runs, history)
        assert now in (step + alone, step + alone + 1), "the previous is gone"
        left += now == step + alone
        step = now
    print(f"{kills} kills, {left} before the save had its name, {step} steps")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
