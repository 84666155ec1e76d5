"""One step of ZeRO with the library's classes: its fullest moment, and what prefetch hides.

N ranks · L layers · W bandwidth
Layers on the slow link sleep instead of computing, so that little depends on what else the
machine does.
"""

import time
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.layout import Layout
from mathlib.memory import zero_rank
from mathlib.meters import live, trace
from mathlib.model import data, gpt
from mathlib.parallel.zero import live_shards
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import sharded_time

WIDE = gpt.small(layers=6, width=128, context=16, vocab=1000)  # V/h of Llama 2
BUCKET, STEPS = 100_000, 4


def adam(groups: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, foreach=False)


# The fullest moment


def watched(stage: int, mixed: bool) -> live.Timeline:
    """Every byte of some steps of this rank; mixed: bf16, fp32 masters, everything recomputed."""
    model = gpt.GPT(WIDE, recompute="full" if mixed else "none")
    model = model.bfloat16() if mixed else model
    if stage == 3:
        zero: Zero1 = Zero3(model, adam, list(model.blocks), master=mixed)
    else:
        kind = Zero1 if stage == 1 else Zero2
        zero = kind(model, adam, master=mixed, bucket_bytes=BUCKET)
    return live_shards.step_timeline(zero, [data.batch(1, WIDE.context, i) for i in range(STEPS)])


def needed(stage: int, mixed: bool) -> float:
    """The most bytes alive on one of two ranks, by the formula."""
    layout = Layout(data=2, zero=stage, recompute="full" if mixed else "none")
    return zero_rank.peak(
        WIDE,
        layout,
        recipe="mixed-adam-fp32-gradients" if mixed else "adam-fp32",
        optimizer="for-loop",
        bucket_bytes=BUCKET,
        small_tensors=True,
        bytes_per_element=2 if mixed else 4,
        logits_bytes=2 if mixed else 4,
    ).total


WAYS = [(stage, mixed) for mixed in (False, True) for stage in (1, 2, 3)]


def _all_watched() -> list[live.Timeline]:
    return [watched(*way) for way in WAYS]


class Peaks(NamedTuple):
    """The fullest moments of steps on two ranks."""

    pairs: dict[str, tuple[float, float]]  # predicted and measured, by stage and precision
    rows: list[dict[str, int]]  # bytes alive by kind during a step of stage 3 in fp32
    marks: list[tuple[int, str]]  # where in them a phase ends


def peaks() -> Peaks:
    """Of several steps and ranks the least counts: a transport may let go a moment late."""
    by_rank = launch.run(_all_watched, 2)
    lines = dict(zip(WAYS, zip(*by_rank, strict=True), strict=True))
    pairs = {}
    for (stage, mixed), both in lines.items():
        fullest = [max(map(line.total, range(*step))) for line in both for step in _later(line)]
        pairs[f"stage {stage}, {'bf16' if mixed else 'fp32'}"] = (
            needed(stage, mixed),
            min(fullest),
        )
    steps = [(line, step) for line in lines[3, False] for step in _later(line)]
    line, (start, end) = min(steps, key=lambda one: sum(map(one[0].total, range(*one[1]))))
    marks = [(row - start, name) for row, name in line.marks if start < row <= end]
    return Peaks(pairs, line.rows[start:end], marks)


def _later(line: live.Timeline) -> list[tuple[int, int]]:
    return line.steps()[1:]


# What prefetch hides

LAYERS, NUMBERS, PAUSE, LINK = 5, 2**18, 0.02, 50e6  # seconds of a forward, bytes/s


class Sleep(torch.autograd.Function):
    """Computes for PAUSE seconds forward, and twice as long backward."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(x, weight)
        time.sleep(PAUSE)
        return x * weight.mean()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x, weight = context.saved_tensors
        time.sleep(2 * PAUSE)
        return gradient * weight.mean(), torch.zeros_like(weight)


class Layer(nn.Module):
    """A row of weights, and a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(NUMBERS))

    def forward(self, x: Tensor) -> Tensor:
        return Sleep.apply(x, self.weight)


def slow_steps(prefetch: int, link: float) -> list[list[trace.Event]]:
    """The events of this rank in forward and backward of stage 3, of each step but the first."""
    notes, found = trace.Trace(dist.get_rank()), []
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    zero = Zero3(model, adam, list(model), prefetch=prefetch, trace=notes)
    with slow_wires.wires(bandwidth=link):
        for _ in range(STEPS):
            notes.events.clear()
            dist.barrier()
            model(torch.ones(1, requires_grad=True)).sum().backward()
            found.append([replace(e, what=e.what.partition(" of ")[0]) for e in notes.events])
            zero.step()
    return found[1:]


class Slow(NamedTuple):
    """A step of stage 3 on two ranks with a slow link, planned and run."""

    plan: sharded_time.Step
    seconds: float  # of the fastest of three steps
    hidden: float  # share of the communication, mean of the ranks
    events: list[trace.Event]  # of both ranks


def planned(prefetch: int = 1, link: float = LINK, stage: int = 3) -> sharded_time.Step:
    """The same step on two clocks."""
    return sharded_time.step(
        stage=stage,
        layers=LAYERS,
        ranks=2,
        forward=LAYERS * PAUSE,
        backward=2 * LAYERS * PAUSE,
        weights=LAYERS * 4 * NUMBERS,
        bandwidth=link,
        prefetch=prefetch,
    )


def slow(prefetch: int = 1, link: float = LINK) -> Slow:
    """Run it on two processes; no step can be faster than its pauses and its link allow."""
    steps = zip(*launch.run(slow_steps, 2, prefetch, link), strict=True)
    best = min(steps, key=lambda step: max(map(_length, step)))
    hidden = sum(trace.hidden(list(rank)) for rank in best) / 2
    return Slow(planned(prefetch, link), max(map(_length, best)), hidden, trace.merge(best))


def _length(events: list[trace.Event]) -> float:
    return max(e.end for e in events) - min(e.start for e in events)


def asked_early(events: list[trace.Event]) -> int:
    """Of how many layers rank 0 asked for the weights before the layer before them computed."""
    mine = [e for e in events if e.rank == 0]
    gathers = [e.start for e in mine if e.what == "all-gather"]
    works = [e.start for e in mine if e.kind == "compute"]
    return sum(g < w for g, w in zip(gathers[1:], works, strict=False))
