"""Orders beyond 1F1B as chapter and trial run them: executed by four processes, PyTorch's own class
of interleaving, and which order is quickest in how much memory.

p stages · m micro_batches · v chunks a stage
Times are in forwards of a stage; a message takes `alpha` of them.
"""

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, schedules

from mathlib import launch
from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.schedule import bubble, partition
from mathlib.schedule.actions import Action, Schedule, looped
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.trials.pipeline import MICRO_BATCHES, SHAPE, STAGES, named
from mathlib.trials.pipeline_memory import mean

TITLES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "interleaved",
    "breadth-first": "breadth-first",
    "zb-h1": "ZB-H1",
    "zb-h2": "ZB-H2",
    "zb-v": "ZB-V",
    "dualpipe": "DualPipe",
}
CHUNKED = ("interleaved", "breadth-first")
Case = tuple[Schedule, Times]
Gradients = dict[str, Tensor | None]


def layers_held(schedule: Schedule, layers: int) -> str:
    """Which layers each stage has, counted from 1."""
    held = [
        " and ".join(
            str(i + 1) for c in schedule.chunks_of(s) for i in schedule.layers_of(c, layers)
        )
        for s in range(schedule.stages)
    ]
    return "; ".join(held)


class Ran(NamedTuple):
    """What four processes counted of a step."""

    time: float  # when the last of their clocks stops
    messages: int
    copies: float  # of the weights
    far: float  # gradients from those of one process


def _executed(cases: tuple[Case, ...]) -> list[tuple[float, int, int, Gradients]]:
    found = []
    for schedule, times in cases:
        chunks = model_chunks.build(SHAPE, schedule, dist.get_rank())
        options: dict[str, Any] = {"width": SHAPE.width, "clock": times}
        double = {c: chunk.double() for c, chunk in chunks.items()}
        pipe = Pipeline(double, schedule, torch.optim.SGD, **options)
        with wire.counted() as sent:
            pipe.run(*data.batch(schedule.micro_batches, SHAPE.context))
        pipe.copies.add_up()  # of a model that is there twice
        assert pipe.clock
        held = sum(p.nbytes for p in pipe.weights().values())
        found.append((pipe.clock.now, sent.messages, held, pipe.gradients()))
    return found


def executed(*cases: Case) -> list[Ran]:
    """A step of each schedule on four processes."""
    ranks, found = launch.run(_executed, STAGES, cases), []
    for (schedule, _), *by_rank in zip(cases, *ranks, strict=True):
        clocks, messages, held, gradients = zip(*by_rank, strict=True)
        model = gpt.GPT(SHAPE, seed=0).double()
        copies = sum(held) / sum(p.nbytes for p in model.parameters())
        far = _far(gradients, schedule.micro_batches)
        found.append(Ran(max(clocks), sum(messages), copies, far))
    return found


def _far(by_rank: tuple[Gradients, ...], m: int) -> float:
    """How far gradients are from those of one process on the whole batch."""
    model = gpt.GPT(SHAPE, seed=0).double()
    oracle.loss(model, *data.batch(m, SHAPE.context)).backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    pairs = [(g, wanted[name]) for found in by_rank for name, g in found.items()]
    return max(
        oracle.distance([g.double()], one) for g, one in pairs if g is not None and one is not None
    )


def by_formula(order: str) -> float:
    """Length of the step if messages take no time, a forward of 1 and a backward of 2."""
    chunks = 2 if order in CHUNKED else 1
    sizes: Any = {"stages": STAGES, "micro_batches": MICRO_BATCHES, "chunks": chunks}
    return 3 * MICRO_BATCHES + bubble.idle(order=order, **sizes)


def steps() -> dict[str, tuple[float, Schedule]]:
    """Each order's step by formula, and its lists."""
    found = {title: (by_formula(order), named(order)) for order, title in TITLES.items()}
    ideal, way_in = 3 * MICRO_BATCHES, (STAGES - 1) / 2  # two chunks
    found["interleaved, split"] = ideal + way_in, torchs_split(STAGES, MICRO_BATCHES, 2)
    return found


# PyTorch's interleaved class, and the rounds that programs accept


def torchs(m: int) -> Gradients:
    """A step of m micro-batches by PyTorch's class: four ranks of two chunks."""
    rank, device = dist.get_rank(), torch.device("cpu")
    chunks = model_chunks.build(SHAPE, named("interleaved"), rank)
    stages: list[Any] = []
    for c, chunk in chunks.items():
        stages.append(PipelineStage(chunk, c, 2 * STAGES, device))
    pipe = schedules.ScheduleInterleaved1F1B(stages, n_microbatches=m, loss_fn=mean)
    tokens, targets = data.batch(m, SHAPE.context)
    given = [tokens] if rank == 0 else []
    pipe.step(*given, target=targets if rank == STAGES - 1 else None)
    return {name: p.grad for name, p in model_chunks.named(chunks).items()}


def by_torch(m: int) -> float | str:
    """How far its gradients are from those of one process, in 32 bits, or why it refuses."""

    def tried() -> Gradients | str:
        try:
            return torchs(m)
        except ValueError as refusal:
            return str(refusal)

    found = launch.run(tried, STAGES)
    return found[0] if isinstance(found[0], str) else _far(tuple(found), m)


def taken(m: int, size: int) -> bool:
    """Whether our library interleaves m micro-batches on four stages in rounds of this size."""
    try:
        named("interleaved", m, round_size=size)
    except InputError:
        return False
    return True


def taken_by_megatron(m: int, size: int, p: int = STAGES) -> bool:
    """The two checks of its schedules.py, as published."""
    return p <= size <= m and not 0 < m % size < p


# Which order when


def second_copy(**kernel: Any) -> float:
    """What a second copy of an inner stage of GPT-3 takes, in its activations of a micro-batch."""
    layout = Layout(pipeline=8, tensor=8, micro_batches=32)
    stage = partition.stage_bytes("gpt3-175b", layout, [12] * 8, **kernel)[1]
    return 7 * (stage.total / stage.amount("activations") - 1)  # it holds seven micro-batches


KINDS = {"FORWARD": "F", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W", "FULL_BACKWARD": "B"}


def torchs_split(p: int, m: int, v: int) -> Schedule:
    """The lists of PyTorch's ScheduleInterleavedZeroBubble, without its processes."""
    sizes = {"n_local_stages": v, "pp_group_size": p, "_n_microbatches": m}
    asked: Any = SimpleNamespace(**sizes, microbatches_per_round=m // (m // p))
    lists = schedules.ScheduleInterleavedZeroBubble._calculate_single_rank_operations
    actions = []
    for s in range(p):
        row: list[Any] = [a for a in lists(asked, s) if a]
        kinds = (KINDS[a.computation_type.name] for a in row)
        actions.append(
            [Action(k, a.microbatch_index, a.stage_index) for k, a in zip(kinds, row, strict=True)]
        )
    return Schedule("interleaved, B split", m, [looped(stages=p, chunks=v)], actions)


WHOLE = {
    "GPipe": ("gpipe", {}),
    "1F1B": ("1f1b", {}),
    "interleaved v = 2": ("interleaved", {}),
    "interleaved v = 4": ("interleaved", {"chunks": 4}),
    "interleaved v = 2, lean": ("interleaved", {"ahead": 1}),
    "interleaved v = 4, lean": ("interleaved", {"chunks": 4, "ahead": 1}),
    "breadth-first v = 4": ("breadth-first", {"chunks": 4}),
}
SPLIT = ("zb-h1", "zb-h2", "zb-v", "dualpipe")


def _candidates(p: int, m: int) -> Iterator[tuple[str, bool, Schedule]]:
    """Name, whether the backward is split, and the lists."""
    for name, (order, more) in WHOLE.items():
        yield name, False, named(order, m, p, **more)
    for order in SPLIT:
        yield TITLES[order], True, named(order, m, p)
    for v in (2, 4):
        yield f"interleaved v = {v}, split", True, torchs_split(p, m, v)


@cache
def tried(alpha: float, p: int = 8, m: int = 32) -> dict[str, tuple[bool, float, float]]:
    """Of each candidate, whether its backward is split, its time, and what its fullest stage holds
    in micro-batches, DualPipe's second copy with it.
    """
    found = {}
    for name, split, schedule in _candidates(p, m):
        line = simulate(schedule, Times(message=alpha))
        found[name] = split, line.total, line.fullest + second_copy() * (name == "DualPipe")
    return found


def quickest(alpha: float, room: float, split: bool) -> tuple[str, float]:
    """The quickest candidate that holds no more, and its time."""
    fits = {
        name: time
        for name, (is_split, time, held) in tried(alpha).items()
        if held <= room and split >= is_split
    }
    return min(fits.items(), key=lambda one: one[1])
