"""What stages keep: the plain file's activations, PyTorch's own, what recomputation leaves of them;
and how many versions of its weights a stage meets in a step.

p stages · m micro_batches · s stage
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from mathlib import launch
from mathlib.meters import live
from mathlib.model import data, gpt
from mathlib.model.oracle import flat_weights
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline as Updating
from mathlib.parallel.plain.pipeline import Pipeline
from mathlib.schedule import bubble
from mathlib.specs import Model
from mathlib.trials.pipeline import MICRO_BATCHES, SHAPE, STAGES, named

MESSAGE = 4 * SHAPE.context * SHAPE.width  # bytes of what goes from stage to stage
WORDED = gpt.small(layers=8, width=32, context=16, vocab=49 * 32, tied=False)  # GPT-2 Medium's V/h
THEIRS = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B"}
TITLES = {"gpipe": "GPipe", "1f1b": "1F1B"}
Go = Callable[[], object]


def stage_of(shape: Model = SHAPE) -> nn.Module:
    """This rank's layers."""
    return model_chunks.build(shape, named("gpipe"), dist.get_rank())[dist.get_rank()]


def plain(order: str, stage: nn.Module, batch: tuple[Tensor, ...], m: int) -> Go:
    """A step of the plain file."""
    pipe = Pipeline({dist.get_rank(): stage}, named(order, m), SHAPE.width)
    return lambda: pipe.run(*batch)


def torchs(order: str, stage: nn.Module, batch: tuple[Tensor, ...], m: int) -> Go:
    """A step of PyTorch's class of the same order."""
    rank, last = dist.get_rank(), dist.get_rank() == STAGES - 1
    one = PipelineStage(stage, rank, STAGES, torch.device("cpu"))
    run = getattr(schedules, THEIRS[order])(one, m, loss_fn=mean)
    given = batch[:1] if rank == 0 else []
    return lambda: run.step(*given, target=batch[1] if last else None, return_outputs=False)


def mean(scores: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(scores.flatten(0, 1), targets.flatten())


def _most(go: Go, stage: nn.Module, batch: tuple[Tensor, ...]) -> int:
    """Bytes of activations alive at the fullest moment of a step that is not the first."""
    go()
    stage.zero_grad()
    with live.live(stage) as meter:
        for tensor in batch:
            meter.follow(tensor, "temporary")
        go()
    return max(row["activations"] for row in meter.timeline().rows)


Runs = dict[tuple[str, str, int], int]  # bytes by whose step, order and micro-batches
WAYS = {"plain": plain, "torch": torchs}


def _held() -> Runs:
    found = {}
    cases = [(who, order, MICRO_BATCHES) for who in WAYS for order in THEIRS]
    for who, order, m in [("plain", "gpipe", 1), *cases]:
        stage, batch = stage_of(), data.batch(m, SHAPE.context)
        found[who, order, m] = _most(WAYS[who](order, stage, batch, m), stage, batch)
    return found


def held() -> list[Runs]:
    """Activations of every stage at its fullest moment, in bytes."""
    return launch.run(_held, STAGES)


def in_micro_batches(found: list[Runs]) -> dict[str, tuple[float, float, float]]:
    """By order and stage, of m micro-batches those held: formula, plain file, PyTorch."""
    m, rows = MICRO_BATCHES, {}
    for order in THEIRS:
        for s, runs in enumerate(found):
            one = runs["plain", "gpipe", 1]
            law = bubble.held(order=order, stages=STAGES, micro_batches=m, stage=s)
            ours, theirs = (runs[who, order, m] / one for who in WAYS)
            rows[f"{TITLES[order]}, stage {s}"] = (law, ours, theirs)
    return rows


# Recomputation


class Recomputed(nn.Module):
    """Keeps its input, and computes all else a second time in backward."""

    def __init__(self, stage: nn.Module):
        super().__init__()
        self.stage = stage

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.stage, x, use_reentrant=False)


def _kept() -> tuple[int, int]:
    """Bytes that a micro-batch leaves for its backward in GPipe, all and with the stage
    recomputed; what one that goes backward brings back is left out.
    """
    found = []
    for kind in (lambda stage: stage, Recomputed):
        stage = kind(stage_of(WORDED))
        bytes_of = []
        for m in (2, 3):
            batch = data.batch(m, WORDED.context)
            bytes_of.append(_most(plain("gpipe", stage, batch, m), stage, batch))
        found.append(bytes_of[1] - bytes_of[0])
    return found[0], found[1]


def kept() -> list[tuple[int, int]]:
    """The same of every stage of a model whose vocabulary is as large beside the width as GPT-2
    Medium's.
    """
    return launch.run(_kept, STAGES)


# Versions of the weights


def _met(go: Go, stage: nn.Module, update: Go | None = None) -> tuple[int, int]:
    """How often a stage's weights are looked at in a step, and how many versions are seen."""
    seen: list[bytes] = []

    def look(*_: Any) -> None:
        seen.append(flat_weights(stage).numpy().tobytes())

    stage.register_forward_pre_hook(look)
    next(stage.parameters()).register_hook(look)
    for _ in range(2):  # in its first step PyTorch also runs a forward for shapes
        last = set(seen)
        seen.clear()
        go()
        if update:
            update()
    assert last.isdisjoint(seen), "weights change from step to step"
    return len(seen), len(set(seen))


def _versions() -> tuple[tuple[int, int], tuple[int, int]]:
    make, batch = partial(torch.optim.SGD, lr=0.1), data.batch(MICRO_BATCHES, SHAPE.context)
    stage = stage_of()
    flush = _met(torchs("1f1b", stage, batch, MICRO_BATCHES), stage, make(stage.parameters()).step)
    stage = stage_of()
    chunks: dict[int, nn.Module] = {dist.get_rank(): stage}
    pipe = Updating(chunks, named("pipedream"), make, width=SHAPE.width)
    return flush, _met(lambda: pipe.run(*batch), stage)


def versions() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Of every stage, looks and versions: in PyTorch's 1F1B, in PipeDream, which has no flush."""
    return launch.run(_versions, STAGES)
