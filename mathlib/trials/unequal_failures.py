"""A run whose ranks are killed again and again: torchrun's elastic agent, or our launcher, starts
them anew, and they go on from the last checkpoint.

Moments are counted in steps, so that the same run can be played out without a process: life k of
the ranks ends `deaths[k].after` steps after it began, in the middle of the next.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import FileSystemWriter

from mathlib import launch
from mathlib.launch import launcher
from mathlib.model import data, gpt, oracle
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.stage3 import Zero3

SHAPE = gpt.small(layers=2, width=16, context=8, vocab=len(data.vocabulary()))
SEQUENCES = 4
# In which a rank is killed; "save": when its file is written, and the checkpoint has no name yet.
MOMENTS = ("backward", "step", "save", "saved")


class Death(NamedTuple):
    """The end of a life of the ranks."""

    after: int  # steps of this life
    moment: str  # of the next
    rank: int


@dataclass(frozen=True)
class Plan:
    """A run of some steps that saves after every few of them, and the deaths on its way."""

    steps: int
    every: int
    deaths: Sequence[Death] = ()


def drawn(*, steps: int, every: int, deaths: int, between: float, ranks: int, seed: int) -> Plan:
    """Deaths at random moments, `between` steps apart on average."""
    draw = random.Random(seed)
    lives = [
        Death(int(draw.expovariate(1 / between)), draw.choice(MOMENTS), draw.randrange(ranks))
        for _ in range(deaths)
    ]
    return Plan(steps, every, lives)


def played_out(plan: Plan) -> list[tuple[int, int]]:
    """By life, from which step and up to which the rank that dies gets; a death behind the end of
    the run does not come, and those after it neither.

    A save counts when its folder has its name: at "saved", not before.
    """
    lives: list[tuple[int, int]] = []
    begin = 0
    for death in (*plan.deaths, None):
        end = plan.steps if death is None else begin + death.after
        if death is None or end >= plan.steps:
            return [*lives, (begin, plan.steps)]
        lives.append((begin, end + (death.moment in ("save", "saved"))))
        done = end + (death.moment == "saved")
        begin = done - done % plan.every
    return lives


def train(plan: Plan, folder: Path, life: int | None = None) -> None:
    """One life of a rank, torchrun's unless told which. It writes down where it begins, and the
    loss of every step it ends.
    """
    life, rank = launcher.life() if life is None else life, dist.get_rank()
    model = gpt.GPT(SHAPE)
    zero = Zero3(model, torch.optim.Adam, model.blocks)
    path = checkpoint.latest(folder / "saves") if (folder / "saves").exists() else None
    begin = checkpoint.resume(zero, path)[0] if path else 0
    death = plan.deaths[life] if life < len(plan.deaths) else None
    _write(folder, life, begin)
    for step in range(begin, plan.steps):

        def lives(moment: str, now: int = step - begin) -> None:
            if death == (now, moment, rank):
                os.kill(os.getpid(), signal.SIGKILL)

        loss = _step(zero, step, lives)
        _write(folder, life, step + 1, loss.hex())
        if (step + 1) % plan.every == 0:
            checkpoint.save(zero, folder / "saves", step + 1, writer=_writer(lives))
        lives("save")  # in a step that ends without a save
        lives("saved")


def _writer(lives: Callable[[str], None]) -> type[FileSystemWriter]:
    class Writer(FileSystemWriter):
        """Writes this rank's file, and may die before the others hear of it."""

        def write_data(self, *args: Any) -> Any:
            written = super().write_data(*args)
            written.wait()
            lives("save")
            return written

    return Writer


def _step(zero: Zero3, step: int, lives: Callable[[str], None]) -> float:
    tokens, targets = oracle.my_part(data.batch(SEQUENCES, SHAPE.context, step))
    loss = oracle.loss(zero.module, tokens, targets)
    loss.backward()
    lives("backward")
    zero.step()
    lives("step")
    return loss.item()


def _write(folder: Path, life: int, steps: int, loss: str | None = None) -> None:
    with (folder / f"said.{dist.get_rank()}").open("a") as file:
        file.write(json.dumps([life, steps, loss]) + "\n")


class Told(NamedTuple):
    """What the ranks of a run wrote down."""

    losses: list[dict[int, str]]  # by rank: after how many steps, in hex, as computed last
    lives: list[tuple[int, int]]  # as `played_out`
    alike: bool  # whether a step that was computed again had the loss that it had before


def uninterrupted(plan: Plan, folder: Path, ranks: int = 2) -> Told:
    """The same steps by ranks that nobody kills."""
    folder.mkdir(exist_ok=True)
    alone = replace(plan, deaths=())
    launch.run(train, ranks, alone, folder)
    return told(alone, folder, ranks)


def under_torchrun(plan: Plan, folder: Path, ranks: int = 2, timeout: float = 600) -> Told:
    """Let an elastic agent run it, which starts all ranks anew when one has died."""
    folder.mkdir(exist_ok=True)
    words = ["--standalone", f"--nproc-per-node={ranks}", f"--max-restarts={len(plan.deaths)}"]
    call = [sys.executable, "-m", "torch.distributed.run", *words, "--monitor-interval=0.05"]
    call += ["-m", "mathlib.trials.unequal_failures", str(folder), json.dumps(asdict(plan))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"torchrun ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return told(plan, folder, ranks)


def by_launcher(
    plan: Plan, folder: Path, ranks: int = 2, train: Callable[..., None] = train
) -> Told:
    """Let our launcher run it, and again when a rank has been killed: lives that cost less."""
    folder.mkdir(exist_ok=True)
    for life in range(len(plan.deaths) + 1):
        try:
            launch.run(train, ranks, plan, folder, life, echo=False)
            break
        except launch.RankError as error:
            if "SIGKILL" not in next(iter(error.failures.values())):
                raise
    return told(plan, folder, ranks)


def told(plan: Plan, folder: Path, ranks: int) -> Told:
    """Read it."""
    losses: list[dict[int, str]] = [{} for _ in range(ranks)]
    reached: dict[tuple[int, int], list[int]] = {}
    alike = True
    for rank in range(ranks):
        for line in (folder / f"said.{rank}").read_text().splitlines():
            life, steps, loss = json.loads(line)
            reached.setdefault((life, rank), []).append(steps)
            if loss is not None:
                alike &= losses[rank].get(steps, loss) == loss
                losses[rank][steps] = loss
    died = [*(death.rank for death in plan.deaths), 0]
    lives = [reached[life, died[life]] for life, _ in enumerate(died) if (life, 0) in reached]
    return Told(losses, [(steps[0], steps[-1]) for steps in lives], alike)


def lost(lives: Sequence[tuple[int, int]]) -> int:
    """Steps that were computed and had to be computed again."""
    return sum(a[1] - b[0] for a, b in itertools.pairwise(lives))


class Held(NamedTuple):
    """A killed run beside the same steps without a death."""

    deaths: int  # that came
    steps: int  # of the run
    lost: int  # steps that were computed and had to be computed again
    played_out: int  # the same number, played out without a process
    same: bool  # each life as played out, all losses and all that came twice equal bit for bit


def held(plan: Plan, folder: Path, run: Callable[..., Told] = by_launcher, ranks: int = 2) -> Held:
    """Kill the ranks as planned, and compare; `run` is `by_launcher` or `under_torchrun`."""
    folder.mkdir(exist_ok=True)
    whole = uninterrupted(plan, folder / "whole", ranks)
    killed, expected = run(plan, folder / "killed", ranks), played_out(plan)
    same = killed.lives == expected and killed.alike and killed.losses == whole.losses
    same &= set(whole.losses[0]) == set(range(1, plan.steps + 1))
    return Held(len(killed.lives) - 1, plan.steps, lost(killed.lives), lost(expected), same)


def until_killed(*, deaths: int, every: int, between: float, ranks: int, seed: int) -> Plan:
    """Deaths as `drawn`, in a run just long enough for all of them to come."""
    plan = drawn(steps=1, every=every, deaths=deaths, between=between, ranks=ranks, seed=seed)
    lives = played_out(replace(plan, steps=sys.maxsize))
    return replace(plan, steps=max(end for _, end in lives[:-1]) + every)


def main(folder: str, plan: str) -> None:
    """What torchrun starts."""
    words = json.loads(plan)
    deaths = [Death(*death) for death in words.pop("deaths")]
    launch.run(train, None, Plan(**words, deaths=deaths), Path(folder), echo=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
