"""Loads of experts, run: what a router makes of them, what no longer fits, who waits for whom."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import modern, oracle
from mathlib.parallel.experts import dispatch
from mathlib.parallel.experts.expert_parallel import ExpertParallel
from mathlib.parallel.experts.router import Routing
from mathlib.schedule import expert_load
from mathlib.trials import experts

ROUTINGS = {
    "nothing": Routing(balance=0),
    "auxiliary loss": Routing(balance=0.01),
    "bias": Routing("sigmoid", normalised=True, balance=0, bias_rate=0.02),
}
STEPS, BATCH = 45, 16  # as many sequences as so many ranks have


class Course(NamedTuple):
    """Of each step: the most visits of an expert over the mean, and the same of a rank."""

    experts: list[float]
    ranks: list[float]


def _trained(names: tuple[str, ...], steps: int) -> list[list[list[list[float]]]]:
    """Visits of every routing, step and layer."""
    return [_one_trained(ROUTINGS[name], steps) for name in names]


def _one_trained(how: Routing, steps: int) -> list[list[list[float]]]:
    model = modern.Modern(experts.shape(layers=1)).double()
    way = ExpertParallel(model, expert=1, routing=how)
    make, visits = oracle.OPTIMIZERS["Adam"](model.parameters()), []
    for step in range(steps):
        way.loss(*experts.batch(step, BATCH)).backward()
        way.average()
        make.step()
        make.zero_grad()
        way.move_bias()
        visits.append(way.visits.tolist())
    return visits


def courses(
    names: tuple[str, ...] = tuple(ROUTINGS), steps: int = STEPS, ranks: int = 4
) -> dict[str, Course]:
    """How even loads are over a training by each of ROUTINGS, in one process: of experts, and of
    ranks if so many shared them.
    """
    found = {}
    for name, visits in zip(names, launch.run(_trained, 1, names, steps)[0], strict=True):
        by_rank = [
            [expert_load.by_rank(visits=layer, expert=ranks) for layer in step] for step in visits
        ]
        found[name] = Course(_worst(visits), _worst(by_rank))
    return found


def _worst(steps: list[list[list[float]]]) -> list[float]:
    return [max(expert_load.imbalance(loads=layer) for layer in step) for step in steps]


def _dropped(factors: tuple[float, ...]) -> list[float]:
    """Visits of this rank's tokens that find no room, for each capacity; and how many there are."""
    model = modern.Modern(experts.SHAPE).double()
    way = ExpertParallel(model, expert=dist.get_world_size())
    way.loss(*oracle.my_part(experts.batch()))
    found = [0.0] * (len(factors) + 1)
    for layer in way.layers:
        chosen = layer.choice.chosen[0]
        visits = dispatch.visits_of(chosen, layer.total)
        found[-1] += len(visits.token)
        for i, factor in enumerate(factors):
            room = dispatch.slots(len(chosen), layer.active, layer.total, factor)
            found[i] += len(visits.token) - len(visits.within(room).token)
    return found


def dropped(factors: tuple[float, ...], ranks: int = 4) -> dict[float, float]:
    """Share of visits that find no room, by capacity, of a router that has not been trained."""
    *lost, all_of_them = map(sum, zip(*launch.run(_dropped, ranks, factors), strict=True))
    return {factor: n / all_of_them for factor, n in zip(factors, lost, strict=True)}


class Clocked(NamedTuple):
    """By a clock that every row of an expert moves on by 1, and that waits at each all-to-all."""

    time: float  # when the forward is over
    loads: list[list[float]]  # rows of each layer, of each rank


def _clocked() -> tuple[float, list[list[float]]]:
    clock, exchanged = torch.zeros(1), dispatch.exchanged
    e = dist.get_world_size()

    @contextlib.contextmanager
    def watch(rows: int) -> Iterator[None]:
        clock.add_(rows)
        yield

    def meeting(x: Tensor, give: list[int], take: list[int], group: object) -> Tensor:
        dist.all_reduce(clock, dist.ReduceOp.MAX)
        return exchanged(x, give, take, group)  # type: ignore[arg-type]

    way = ExpertParallel(modern.Modern(experts.SHAPE).double(), expert=e, watch=watch)
    with patch.object(dispatch, "exchanged", meeting):
        way.loss(*oracle.my_part(experts.batch()))
    return clock.item(), way.visits.tolist()


def clocked(ranks: int = 4) -> Clocked:
    """A forward pass whose only work is that of experts."""
    time, visits = launch.run(_clocked, ranks)[0]
    return Clocked(time, [expert_load.by_rank(visits=layer, expert=ranks) for layer in visits])


class Event(NamedTuple):
    """What a rank does when, for a picture."""

    what: str
    kind: str
    rank: int
    start: float
    end: float


def events(loads: list[list[float]]) -> list[Event]:
    """Each layer's experts, and the wait for the rank with the most rows; a microsecond a row."""
    found, begin = [], 0.0
    for layer in ([rows / 1e6 for rows in one] for one in loads):
        end = begin + max(layer)
        for rank, rows in enumerate(layer):
            found.append(Event("experts", "compute", rank, begin, begin + rows))
            if begin + rows < end:
                found.append(Event("idle", "idle", rank, begin + rows, end))
        begin = end
    return found
