"""The plain pipeline run: the model that it trains, and the clocks of its stages.

p stages · m micro_batches
Stages are ranks. A reader's own order is a function of p, the stage and m that gives a stage's
list of ("F", micro-batch) and ("B", micro-batch).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline as Clocked
from mathlib.parallel.plain.pipeline import Pipeline
from mathlib.schedule import bubble, orders
from mathlib.schedule.actions import Action, Schedule, looped
from mathlib.schedule.simulate import Timeline, simulate
from mathlib.schedule.times import Times

SHAPE = gpt.small(layers=8, width=32, context=16, vocab=len(data.vocabulary()), tied=False)
STAGES, MICRO_BATCHES, STEPS = 4, 8, 3
Order = Callable[[int, int, int], list[tuple[str, int]]]


def from_lists(order: Order, p: int = STAGES, m: int = MICRO_BATCHES) -> Schedule:
    """The schedule of a reader's own lists."""
    rows = [[Action(kind, i, s) for kind, i in order(p, s, m)] for s in range(p)]
    return Schedule(order.__name__, m, [looped(stages=p)], rows)


def named(order: str, m: int = MICRO_BATCHES, p: int = STAGES, **more: Any) -> Schedule:
    """One of the library's orders."""
    return orders.make(order, stages=p, micro_batches=m, **more)


# Whether stages train the model of one process


class NotDivided(Pipeline):
    """Each micro-batch counts as if it were the whole batch."""

    def forward(self, action: Action, x: Tensor | None) -> Tensor:
        self.counted = (self.targets[action.micro_batch] >= 0).sum()
        return super().forward(action, x)


class Silent(Pipeline):
    """No gradient comes back."""

    def receive(self, action: Action) -> Tensor | None:
        given = super().receive(action)
        return given if given is None or action.kind == "F" else torch.zeros_like(given)


def batch(step: int) -> tuple[Tensor, Tensor]:
    """Two sequences for each micro-batch."""
    return data.batch(2 * MICRO_BATCHES, SHAPE.context, step)


Case = tuple[type[Pipeline], Schedule, str]  # how, what, the optimizer
Batches = Callable[[int], tuple[Tensor, Tensor]]


def _trained(case: Case, batches: Batches) -> list[Tensor]:
    """This stage's weights in 64 bits after each step."""
    kind, schedule, optimizer = case
    stage = torch.nn.ModuleList(model_chunks.build(SHAPE, schedule, dist.get_rank()).values())
    pipe = kind({dist.get_rank(): stage.double()[0]}, schedule, SHAPE.width)
    make, history = oracle.OPTIMIZERS[optimizer](stage.parameters()), []
    for step in range(STEPS):
        pipe.run(*batches(step))
        make.step()
        make.zero_grad()
        history.append(oracle.flat_weights(stage))
    return history


def distances(cases: Sequence[Case], batches: Batches = batch) -> list[float]:
    """How far the stages' weights, end to end, ever are from those of one process."""
    stages = launch.run(lambda: [_trained(case, batches) for case in cases], STAGES)
    found = []
    for (_, _, optimizer), *histories in zip(cases, *stages, strict=True):
        model = gpt.GPT(SHAPE, seed=0).double()
        make = oracle.OPTIMIZERS[optimizer](model.parameters())
        wanted = oracle.one_process(model, map(batches, range(STEPS)), make)
        steps = zip(*histories, wanted, strict=True)
        found.append(max(oracle.distance([torch.cat(mine)], one) for *mine, one in steps))
    return found


KINDS: dict[str, type[Pipeline]] = {
    "as listed": Pipeline,
    "loss not divided by m": NotDivided,
    "no gradient sent back": Silent,
}


def apart(schedule: Schedule, kinds: dict[str, type[Pipeline]] = KINDS) -> dict[str, list[float]]:
    """The same of each kind with every optimizer."""
    cases = [(kind, schedule, name) for kind in kinds.values() for name in oracle.OPTIMIZERS]
    far = iter(distances(cases))
    return {title: [next(far) for _ in oracle.OPTIMIZERS] for title in kinds}


# By the clock of each process


class Clocks(NamedTuple):
    """When the actions of each stage began and ended, by the clocks of the processes."""

    stages: list[list[tuple[float, float]]]

    @property
    def total(self) -> float:
        return max(stage[-1][1] for stage in self.stages)

    @property
    def idle(self) -> list[float]:
        return [self.total - sum(end - begin for begin, end in stage) for stage in self.stages]

    @property
    def over_ideal(self) -> float:
        return sum(self.idle) / (len(self.stages) * self.total - sum(self.idle))

    @property
    def over_total(self) -> float:
        return sum(self.idle) / len(self.stages) / self.total


def _clocked(cases: Sequence[tuple[Schedule, Times]]) -> list[list[tuple[float, float]]]:
    found = []
    for schedule, times in cases:
        chunks = model_chunks.build(SHAPE, schedule, dist.get_rank())
        options: dict[str, Any] = {"width": SHAPE.width, "clock": times}
        pipe = Clocked(chunks, schedule, torch.optim.SGD, **options)
        pipe.run(*data.batch(schedule.micro_batches, SHAPE.context))
        assert pipe.clock
        found.append([(one.begin, one.end) for one in pipe.clock.done])
    return found


def clocks(*cases: tuple[Schedule, Times]) -> list[Clocks]:
    """Real processes execute each schedule; an action moves their clocks on by its time."""
    by_stage = launch.run(_clocked, STAGES, cases)
    return [Clocks(list(stages)) for stages in zip(*by_stage, strict=True)]


def bubbles() -> dict[str, tuple[float, float]]:
    """Of fill and drain, by its equations and by clocks: idle time, the step, both bubbles."""
    (clock,) = clocks((named("gpipe"), Times()))
    given: dict[str, Any] = {"stages": STAGES, "micro_batches": MICRO_BATCHES}
    idle = bubble.idle(order="gpipe", **given)
    return {
        "idle, first stage": (idle, clock.idle[0]),
        "idle, last stage": (idle, clock.idle[-1]),
        "the step": ((MICRO_BATCHES + STAGES - 1) * 3, clock.total),
        "over ideal": (bubble.over_ideal(**given), clock.over_ideal),
        "over total": (bubble.over_total(**given), clock.over_total),
    }


ORDERS = {"GPipe": named("gpipe"), "1F1B": named("1f1b"), "twice ahead": named("1f1b", ahead=2)}
TIMES = {
    "as assumed": Times(),
    "messages take 1/8": Times(message=0.125),
    "first stage 1.5 times": Times(slow={0: 1.5}),
    "last stage 1.5 times": Times(slow={3: 1.5}),
}


def lengths() -> dict[str, list[float]]:
    """Of a step with each of these times, by order and by clocks."""
    cases = [(order, times) for times in TIMES.values() for order in ORDERS.values()]
    totals = iter(clock.total for clock in clocks(*cases))
    return {what: [next(totals) for _ in ORDERS] for what in TIMES}


def whole_and_cut() -> dict[str, Timeline]:
    """The same batch as one micro-batch and as eight."""
    cuts = {"one batch, whole": 1, "in eight micro-batches": 8}
    return {
        what: simulate(named("gpipe", m), Times(forward=8 / m, backward=16 / m))
        for what, m in cuts.items()
    }


def pace(p: int, message: float, ahead: int = 1) -> float:
    """Seconds of a micro-batch in the long run, simulated: what as many again cost."""
    m = 8 * p * (2 * p - 1)
    lists = (named("1f1b", k * m, p, ahead=ahead) for k in (2, 1))
    two, one = (simulate(each, Times(message=message)).total for each in lists)
    return (two - one) / m


def paces() -> dict[str, tuple[float, float]]:
    """The same by equation and simulated, for three sizes of pipeline and message."""
    pairs = {}
    for p, message in ((4, 0.125), (8, 0.5), (8, 2)):
        for name, ahead in (("1F1B", 1), ("twice ahead", 2)):
            law = bubble.pace(stages=p, message=message, ahead=ahead)
            pairs[f"{name}, p = {p}, α = {message:g}"] = (law, pace(p, message, ahead))
    return pairs


# The rule of four micro-batches a stage


def early(p: int, m: int, F: float = 1, B: float = 2) -> float:
    """Idle time over all time of fill and drain whose stages recompute before the gradient is
    there, stage by stage from the last to the first.
    """
    arrives = [0.0] * m  # gradients, at the last stage: the loss is its own
    for s in reversed(range(p)):
        now = (s + m) * F  # all forwards of this stage are done
        for i in range(m):
            now = max(now + F, arrives[i]) + B
            arrives[i] = now
    return 1 - m * (2 * F + B) / now


# Throughput of a Transformer on 2 and on 8 partitions, 32 micro-batches (Huang et al. 2019); the 1
# is what the others of its table are divided by
PRINTED = {"Table 2, TPUs": (1.8, 6.3), "Table 3, GPUs": (1.0, 3.3)}


def lost() -> dict[str, tuple[float, float]]:
    """Of the fourfold gain from 2 to 8 partitions, the share that GPipe's tables miss: at least,
    at most, as far as two printed digits tell.
    """
    found = {}
    for table, (two, eight) in PRINTED.items():
        slack = 0.05 * (two > 1)
        gains = (eight + 0.05) / (two - slack), (eight - 0.05) / (two + slack)
        found[table] = (1 - gains[0] / 4, 1 - gains[1] / 4)
    return found
