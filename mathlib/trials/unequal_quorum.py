"""Replicas that are killed while the others train on: `parallel.plain.quorum` beside one process.

Each replica is a process of its own, and started anew when it has been killed; the store is this
process's, and outlives them. Replica i takes its own sequences of each batch.
"""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain.quorum import Quorum

SHAPE = gpt.small(layers=2, width=16, context=8, vocab=len(data.vocabulary()))
SEQUENCES = (3, 2, 1)  # of a batch, by replica


class Death(NamedTuple):
    """The end of a life of a replica."""

    step: int  # of the run, the first is 0
    moment: str  # before it meets, "backward", or sums, or votes: "sum", "vote"; after: "voted"
    replica: int


class Committed(NamedTuple):
    """A step that the quorum committed, as one replica saw it."""

    shares: dict[int, int]  # tokens that it counted, by replica
    weights: Tensor  # afterwards


History = dict[int, Committed]  # by step


class Mortal(Quorum):
    """A replica that kills itself when told to."""

    death: Death | None = None

    def at(self, moment: str) -> None:
        if self.death and (self.steps, moment) == self.death[:2]:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(self, key: str, names: list[str]) -> Any:
        group = super().connect(key, names)
        self.at("sum")
        return _Group(group, self.at)

    def agreed(self, key: str, value: Callable) -> str:
        if key.endswith("end"):
            self.at("voted")
        return super().agreed(key, value)


class _Group:
    """A process group that says when it has summed."""

    def __init__(self, group: dist.ProcessGroup, at: Callable[[str], None]):
        self.group, self.at, self.broadcast = group, at, group.broadcast

    def allreduce(self, row: Tensor) -> "_Group":
        self.work = self.group.allreduce(row)
        return self

    def wait(self) -> None:
        self.work.wait()
        self.at("vote")


def part(step: int, replica: int) -> list[Tensor]:
    """A replica's own sequences of a batch."""
    batch = data.batch(sum(SEQUENCES), SHAPE.context, step)
    return [each.split(SEQUENCES)[replica] for each in batch]


def _replica(
    port: int, replica: int, death: Death | None, run: "Run", kind: type["Mortal"]
) -> History:
    """One life."""
    kind.death, kind.patience = death, timedelta(seconds=run.patience)
    model = gpt.GPT(SHAPE, seed=replica).double()
    store = dist.TCPStore("127.0.0.1", port)
    way = kind(model, oracle.OPTIMIZERS[run.optimizer], store, replica, len(SEQUENCES))
    found = {}
    while way.steps < run.steps:
        oracle.loss(model, *part(way.steps, replica)).backward()
        way.at("backward")
        counted = way.step(SEQUENCES[replica] * SHAPE.context)
        shares = {int(name.split(".")[0]): int(t) for name, t in counted.items() if t}
        found[way.steps - 1] = Committed(shares, oracle.flat_weights(model).clone())
    return found


class Run(NamedTuple):
    """What replicas are to do."""

    steps: int
    deaths: Sequence[Death] = ()
    optimizer: str = "Adam"
    patience: float = 30.0  # seconds
    again: bool = True  # whether a killed replica is started anew


def played(run: Run, kind: type[Mortal] = Mortal) -> list[History]:
    """Let the replicas do it; by replica, what its last life saw. One that is not started anew saw
    nothing.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def lives(replica: int) -> History:
        for death in (*(d for d in run.deaths if d.replica == replica), None):
            try:
                words = (store.port, replica, death, run, kind)
                return launch.run(_replica, 1, *words, echo=False, timeout=300)[0]
            except launch.RankError as error:
                if "SIGKILL" not in error.failures.get(0, ""):
                    raise
                if not run.again:
                    return {}
        raise AssertionError("a replica's last life has no death")

    with ThreadPoolExecutor(len(SEQUENCES)) as pool:
        return list(pool.map(lives, range(len(SEQUENCES))))


def one_process(history: History, optimizer: str) -> dict[int, Tensor]:
    """Weights after each step of one process on exactly the shares that were counted."""
    model = gpt.GPT(SHAPE, seed=0).double()
    made, found = oracle.OPTIMIZERS[optimizer](model.parameters()), {}
    for step in sorted(history):
        parts = [part(step, replica) for replica in sorted(history[step].shares)]
        batch = [torch.cat(each) for each in zip(*parts, strict=True)]
        oracle.step(model, made, *batch)
        found[step] = oracle.flat_weights(model)
    return found


class Compared(NamedTuple):
    """Replicas beside one process."""

    tokens: int  # of all batches
    counted: int  # of these
    lost: list[tuple[int, int]]  # step and replica of each share that was not counted
    alike: bool  # whether all replicas have the same shares and the same weights, bit for bit
    far: float  # the largest distance of any weight from one process, after any step


def compared(run: Run, kind: type[Mortal] = Mortal) -> Compared:
    """Kill replicas as told, and compare."""
    histories = [history for history in played(run, kind) if history]
    whole = max(histories, key=len)
    wanted = one_process(whole, run.optimizer)
    alike, far = len(whole) == run.steps, 0.0
    for history in histories:
        for step, (shares, weights) in history.items():
            alike &= shares == whole[step].shares and weights.equal(whole[step].weights)
            far = max(far, oracle.distance([weights], wanted[step]))
    lost = [
        (step, replica)
        for step in range(run.steps)
        for replica in range(len(SEQUENCES))
        if replica not in whole[step].shares
    ]
    counted = sum(sum(committed.shares.values()) for committed in whole.values())
    tokens = run.steps * sum(SEQUENCES) * SHAPE.context
    return Compared(tokens, counted, lost, alike, far)
