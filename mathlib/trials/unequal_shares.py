"""Unequal shares on ranks: sequences by speed, states by memory, stages by both.  Each trains what
one process trains, and takes as much less time as the model says.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.launch import lab
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.plain.unequal import Unequal
from mathlib.schedule import events, orders, programs, shares
from mathlib.schedule.cluster import Cluster
from mathlib.schedule.times import Times

SHAPE = gpt.small(layers=12, width=16, context=8, vocab=len(data.vocabulary()), tied=False)
NUMBERS = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
B, STEPS, NAP = 12, 3, 0.05  # sequences; steps; seconds of a sequence, or of a layer, at speed 1
HALVES = Cluster((2, 2), speeds={0: 0.5, 1: 0.5})  # two old ranks, two new ones
SPEEDS = [HALVES.speed(rank) for rank in range(4)]
ORDER = orders.make("1f1b", stages=4, micro_batches=4)
LONG = orders.make("1f1b", stages=4, micro_batches=12)  # where time is measured
EQUAL, BY_SPEED = [3, 3, 3, 3], [2, 2, 4, 4]  # sequences, or layers of a stage


def _batches() -> list[Sequence[Tensor]]:
    return [data.batch(B, SHAPE.context, step) for step in range(STEPS)]


def _whole(name: str) -> list[Tensor]:
    """The weights of one process after each step."""
    model = gpt.GPT(SHAPE, seed=0).double()
    return oracle.one_process(model, _batches(), oracle.OPTIMIZERS[name](model.parameters()))


def _shared(name: str, sequences: Sequence[int], states: Sequence[int], wrong: bool) -> tuple:
    """The weights after each step, and numbers that this rank keeps of each state."""
    model = gpt.GPT(SHAPE, seed=dist.get_rank()).double()
    way, history = Unequal(model, oracle.OPTIMIZERS[name], sequences, states), []
    if wrong:
        way.weight = 1.0
    for batch in _batches():
        way.loss(*batch).backward()
        way.step()
        history.append(oracle.flat_weights(model).clone())
    return history, max(s.numel() for s in way.optimizer.state[way.own].values() if s.dim())


class Shared(NamedTuple):
    """How far the weights are from those of one process, and the states of each rank."""

    far: float
    kept: list[int]


def shared(
    name: str, sequences: Sequence[int] = (2, 2, 4, 4), rooms: Sequence[float] = (1, 1, 3, 3)
) -> Shared:
    """Sequences by speed, states by room; a rank's mean counts as its share of the batch.

    Chapter: unequal (eq-unequal-mean)
    """
    return _compared(name, sequences, shares.by_room(numbers=NUMBERS, rooms=rooms), False)


def unweighted(name: str = "SGD") -> float:
    """The same with each rank's mean counted alike."""
    return _compared(name, BY_SPEED, shares.by_room(numbers=NUMBERS, rooms=[1] * 4), True).far


def _compared(name: str, sequences: Sequence[int], states: Sequence[int], wrong: bool) -> Shared:
    ranks = launch.run(_shared, len(sequences), name, sequences, states, wrong)
    wanted = torch.cat(_whole(name))
    far = oracle.distance([torch.cat(history) for history, _ in ranks], wanted)
    return Shared(far, [kept for _, kept in ranks])


def _cut(split: Sequence[int]) -> list[list[int]]:
    ends = [sum(split[: s + 1]) for s in range(len(split))]
    return [list(range(end - n, end)) for n, end in zip(split, ends, strict=True)]


def _staged(name: str, split: Sequence[int]) -> list[dict[str, Tensor]]:
    chunks = model_chunks.build(SHAPE, ORDER, dist.get_rank(), layers=_cut(split))
    for chunk in chunks.values():
        chunk.double()
    make: Any = oracle.OPTIMIZERS[name]
    pipe, history = Pipeline(chunks, ORDER, make, width=SHAPE.width), []
    for tokens, targets in _batches():
        pipe.run(tokens, targets)
        pipe.step()
        history.append({key: one.clone() for key, one in pipe.weights().items()})
    return history


def staged(name: str, split: Sequence[int] = (2, 2, 4, 4)) -> float:
    """How far stages of so many layers are from one process, after each step."""
    names = [key for key, _ in gpt.GPT(SHAPE).named_parameters()]
    by_rank = launch.run(_staged, len(split), name, split)
    rows = []
    for step in zip(*by_rank, strict=True):
        whole = {key: one for stage in step for key, one in stage.items()}
        rows.append(torch.cat([whole[key].flatten() for key in names]))
    return oracle.distance([torch.cat(rows)], torch.cat(_whole(name)))


def _batched(sequences: Sequence[int]) -> float:
    model = gpt.GPT(SHAPE.but(layers=1), seed=0)
    states = shares.by_room(numbers=sum(p.numel() for p in model.parameters()), rooms=[1] * 4)
    way = Unequal(model, torch.optim.SGD, sequences, states)  # type: ignore[arg-type]

    def step(batch: Sequence[Tensor]) -> None:
        time.sleep(lab.here().seconds(sequences[dist.get_rank()] * NAP))
        way.loss(*batch).backward()
        way.step()

    return _shortest(step)


def _piped(split: Sequence[int]) -> float:
    here = lab.here()
    chunks = model_chunks.build(SHAPE, LONG, here.rank, layers=_cut(split))
    times = _times(split, here.speed)
    pipe = Pipeline(chunks, LONG, torch.optim.SGD, width=SHAPE.width, pace=times)
    return _shortest(lambda batch: pipe.run(batch[0], batch[1]))


def _shortest(step: Callable[[Sequence[Tensor]], object]) -> float:
    """Seconds of the shortest step."""
    took = []
    for batch in _batches():
        dist.barrier()
        begin = time.perf_counter()
        step(batch)
        took.append(time.perf_counter() - begin)
    return min(took)


def _times(split: Sequence[int], speed: float = 1.0) -> Times:
    """What a micro-batch takes in stages of so many layers."""
    forward = [n * NAP / 4 / speed for n in split]
    return Times(forward=forward, backward=[2 * one for one in forward])


class Gain(NamedTuple):
    """How many times faster shares by speed are than equal ones."""

    model: float
    run: float


def gain(what: str) -> Gain:
    """Of "sequences" or of "stages", on two old and two new ranks."""
    step = {"sequences": _batched, "stages": _piped}[what]
    took = [max(launch.run(step, None, split, cluster=HALVES)) for split in (EQUAL, BY_SPEED)]
    if what == "sequences":
        model = [shares.slowest(split, speeds=SPEEDS) for split in (EQUAL, BY_SPEED)]
    else:
        model = [planned(split) for split in (EQUAL, BY_SPEED)]
    return Gain(model[0] / model[1], took[0] / took[1])


def planned(split: Sequence[int]) -> float:
    return events.run(programs.pipeline(LONG, _times(split)), HALVES).total
