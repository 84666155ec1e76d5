"""A step of the small GPT in a pipeline: ours and torch.distributed.pipelining, same batches.

The second half has stages that sleep, so that a step is as long as its schedule: it measures the
bubble by wall clock, and what each runtime adds to it.  What a message takes, and an action beside
its sleep, is measured once, with GPipe on two ranks; the plan of every row is simulated with that.
"""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import rounds
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, schedules

from mathlib import launch
from mathlib.meters.trace import Event, Trace
from mathlib.model import data, gpt
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.clocks import at_least
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.schedule import orders
from mathlib.schedule.actions import Schedule
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.specs import Model

MICRO_BATCHES, CONTEXT = 8, 128
PAIRS = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zb-v": "ScheduleZBVZeroBubble",
}
SLOW = Times(forward=0.05, backward=0.1)  # seconds of a stage
Step = Callable[[], object]


def shape(layers: int = 8, width: int = 256, context: int = CONTEXT) -> Model:
    vocab = len(data.vocabulary())  # torch leaves a tied embedding to its user
    return gpt.small(layers=layers, width=width, heads=8, context=context, vocab=vocab, tied=False)


def make(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)


def schedule_of(order: str, ranks: int) -> Any:
    return orders.make(order, stages=ranks, micro_batches=MICRO_BATCHES)


def ours(order: str, model: Model, pace: Times | None) -> Step:
    schedule = schedule_of(order, dist.get_world_size())
    chunks = model_chunks.build(model, schedule, dist.get_rank())
    pipe = Pipeline(chunks, schedule, make, width=model.width, pace=pace)
    batch = data.batch(MICRO_BATCHES, model.context)
    return lambda: (pipe.run(*batch), pipe.step())


def theirs(order: str, model: Model, pace: Times | None) -> Step:
    schedule, device = schedule_of(order, dist.get_world_size()), torch.device("cpu")
    chunks = model_chunks.build(model, schedule, dist.get_rank())
    n = schedule.model_chunks
    stages = [PipelineStage(chunk, c, n, device) for c, chunk in chunks.items()]
    if pace:
        for stage in stages:
            slow_down(stage, pace.of(schedule)[dist.get_rank()])
    kind = getattr(schedules, PAIRS[order])
    single = isinstance(kind, type) and issubclass(kind, schedules.PipelineScheduleSingle)
    run = kind(stages[0] if single else stages, MICRO_BATCHES, loss_fn=mean)
    optimizer = make([p for chunk in chunks.values() for p in chunk.parameters()])
    tokens, targets = data.batch(MICRO_BATCHES, model.context)
    given = [tokens] if 0 in chunks else []
    wanted = {"target": targets} if n - 1 in chunks else {}

    def step() -> None:
        run.step(*given, **wanted, return_outputs=False)
        optimizer.step()
        optimizer.zero_grad()

    return step


def mean(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def slow_down(stage: PipelineStage, took: dict[str, list[float]]) -> None:
    """Let torch's stage take as long as ours with the same pace."""
    c = stage.stage_index

    def slowed(call: Callable, pause: Callable[[dict], AbstractContextManager]) -> Callable:
        def instead(*given: Any, **options: Any) -> Any:
            with pause(options):
                return call(*given, **options)

        return instead

    def back(options: dict) -> AbstractContextManager:
        return at_least(took["B" if options.get("full_backward", True) else "I"][c])

    for name, pause in {
        "forward_one_chunk": lambda _: at_least(took["F"][c]),
        "backward_one_chunk": back,
        "backward_weight_one_chunk": lambda _: at_least(took["W"][c]),
    }.items():
        setattr(stage, name, slowed(getattr(stage, name), pause))


class Costs(NamedTuple):
    """What a paced step takes beside its sleep, in seconds."""

    action: float  # what a rank does before an action, and a sleeper's late waking
    message: float  # from the end of the action that made it to the end of the wait for it


def noted(model: Model, count: int) -> list[list[Event]]:
    """What this rank did in each of several GPipe steps, after one to warm up."""
    schedule, notes = schedule_of("gpipe", dist.get_world_size()), Trace(dist.get_rank())
    chunks = model_chunks.build(model, schedule, dist.get_rank())
    pipe = Pipeline(chunks, schedule, make, width=model.width, pace=SLOW, trace=notes)
    steps = []
    for _ in range(count + 1):
        notes.events.clear()
        pipe.run(*data.batch(MICRO_BATCHES, model.context))
        pipe.step()
        steps.append(list(notes.events))
    return steps[1:]


def costs(ranks: list[list[list[Event]]]) -> Costs:
    """Medians over all actions of two ranks, and over all messages that were waited for."""
    beside, messages = [], []
    slept = {"F": SLOW.forward, "B": SLOW.backward}
    for both in zip(*ranks, strict=True):
        ended = {event.what: event.end for events in both for event in events}
        for events in both:
            begin = None  # of what an action takes: the last one's end, or its message's arrival
            for event in events:
                kind, chunk = event.what.removeprefix("wait for ")[0], int(event.what[-1])
                if event.kind == "compute":
                    if begin is not None:
                        beside.append(event.end - begin - slept[kind])
                    begin = event.end
                    continue
                maker = event.what.removeprefix("wait for ")[:-1] + str(1 - chunk)
                if ended[maker] > event.start:
                    messages.append(event.end - ended[maker])
                    begin = event.end
    return Costs(statistics.median(beside), statistics.median(messages))


def planned(schedule: Schedule, cost: Costs) -> float:
    """Seconds of a step whose actions and messages cost that much beside the sleep."""
    n, kinds = schedule.model_chunks, {a.kind for row in schedule.actions for a in row}
    share = schedule.stages / n
    weight = SLOW.backward / 2 * share + cost.action
    back = 2 * weight if "W" in kinds else SLOW.backward * share + cost.action
    forward = SLOW.forward * share + cost.action
    times = Times([forward] * n, [back] * n, [weight] * n, message=cost.message)
    return simulate(schedule, times).total


def race(order: str, model: Model, pace: Times | None, count: int) -> rounds.Times:
    steps = {"ours": ours(order, model, pace), "torch": theirs(order, model, pace)}
    return rounds.on_ranks(steps, rounds=count)


def rows(quick: bool) -> Iterator[dict]:
    for ranks in (2, 4):
        for order, other in PAIRS.items():
            count = 2 if quick else 30
            times = launch.run(race, ranks, order, shape(), None, count, timeout=900)[0]
            label = f"GPT step, {order}, {ranks} ranks"
            yield named(rounds.row(label, times, "ours", "torch", ranks=ranks), order, other)
    small, count = shape(width=32, context=16), 2 if quick else 7
    cost = costs(launch.run(noted, 2, small, count, timeout=900))
    for ranks in (2, 4):
        for order, other in PAIRS.items():
            times = launch.run(race, ranks, order, small, SLOW, count, timeout=900)[0]
            line = simulate(schedule_of(order, ranks), SLOW)
            label = f"stages of 50 ms, {order}, {ranks} ranks"
            row = rounds.row(label, times, "ours", "torch", ranks=ranks)
            ideal = line.total * (1 - line.bubble_over_total)
            plan = {
                "planned_seconds": round(planned(schedule_of(order, ranks), cost), 4),
                "action_seconds": round(cost.action, 6),
                "message_seconds": round(cost.message, 6),
                "simulated_bubble": round(line.bubble_over_total, 4),
                "our_bubble": round(1 - ideal / row["ours_seconds"], 4),
                "their_bubble": round(1 - ideal / row["theirs_seconds"], 4),
            }
            yield named(row, order, other) | plan


def named(row: dict, ours: str, theirs: str) -> dict:
    return row | {"ours": ours, "theirs": theirs}
