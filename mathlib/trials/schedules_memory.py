"""What the stages of a pipeline hold and how to even it out: bytes counted on four processes, times
simulated, GPT-3 by formula; and what waits for the gradient of the weights.

p stages · m micro_batches · s stage
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.layout import Layout
from mathlib.meters import live
from mathlib.meters.saved import saved_bytes, tensor_bytes
from mathlib.model import data, gpt
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.pipeline.split_backward import LaterWeights
from mathlib.schedule import partition
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.specs import Model
from mathlib.trials.pipeline import MICRO_BATCHES, STAGES, named

LETTERS = gpt.small(layers=8, width=32, context=32, vocab=len(data.vocabulary()), tied=False)
WORDS = gpt.small(layers=8, width=32, context=32, vocab=4096, tied=False)


class Way(NamedTuple):
    """An order, layers by stage, stages that recompute."""

    order: str = "1f1b"
    layers: tuple[int, ...] = (2, 2, 2, 2)
    again: tuple[int, ...] = ()


WAYS = {
    "1F1B, as it is": Way(),
    "1, 1, 2, 4 layers": Way(layers=(1, 1, 2, 4)),
    "recomputed on 0 and 1": Way(again=(0, 1)),
    "recomputed everywhere": Way(again=(0, 1, 2, 3)),
    "interleaved": Way("interleaved"),
    "ZB-V": Way("zb-v"),
    "ZB-H1": Way("zb-h1"),
}


def _held(way: Way, model: Model) -> int:
    """Bytes at this stage's fullest moment, but for weights and their gradients."""
    schedule, stage = named(way.order), dist.get_rank()
    cuts = [list(range(model.layers))[sum(way.layers[:s]) :][:n] for s, n in enumerate(way.layers)]
    how: dict[str, Any] = {
        "recompute": "full" if stage in way.again else "none",
        "attention": "flash",
    }
    layers = cuts if way.order == "1f1b" else None
    chunks = model_chunks.build(model, schedule, stage, layers=layers, **how)
    pipe = Pipeline(chunks, schedule, torch.optim.SGD, width=model.width)
    tokens, targets = (
        [one.clone() for one in side.split(1)] for side in data.batch(MICRO_BATCHES, model.context)
    )
    with live.live(nn.ModuleList(chunks.values())) as meter:
        pipe.run(tokens, targets)
    return max(row["activations"] + row["temporary"] for row in meter.timeline().rows)


def held(ways: Sequence[Way] = (*WAYS.values(),), model: Model = LETTERS) -> list[list[int]]:
    """The same of every stage, way by way, with flash attention."""
    ranks = launch.run(lambda: [_held(way, model) for way in ways], STAGES, timeout=110)
    return [list(stages) for stages in zip(*ranks, strict=True)]


def took(way: Way, m: int = 32) -> float:
    """Time of a step in forwards of a stage of two layers; embedding, head and loss take none."""
    given = {
        "forward": [n / 2 for n in way.layers],
        "backward": [float(n) for n in way.layers],
        "recompute": [s in way.again for s in range(STAGES)],
    }
    times = Times(**given) if way.order == "1f1b" else Times()  # type: ignore[arg-type]
    return simulate(named(way.order, m), times).total


# What waits for W


def waits(attention: str, width: int = 64, context: int = 256) -> list[float]:
    """Numbers of a layer for each token, in widths: saved by forward; x, and x and dy, that wait
    for the gradient of the weights; the second as a share of the saved ones.
    """
    model = gpt.small(layers=3, width=width, heads=4, context=context, vocab=64)
    plan = named("gpipe", 1, 3)
    chunk, later = model_chunks.build(model, plan, 1, attention=attention)[1], LaterWeights()
    later.watch(chunk)
    x = torch.randn(2, context, width, requires_grad=True)
    saved = saved_bytes(lambda: chunk(x), chunk)
    y = chunk(x)
    with later.put_off(0):
        y.backward(torch.randn_like(y))  # as it comes from the next stage, a full tensor
    inputs = tensor_bytes([matmul[2] for matmul in later.waiting[0]])
    both = tensor_bytes([matmul[2:] for matmul in later.waiting[0]])
    return [saved / x.nbytes, inputs / x.nbytes, both / x.nbytes, both / saved]


# GPT-3 on eight stages

GPT3 = Layout(pipeline=8, tensor=8, micro_batches=32)
FLASH = {"attention": "flash", "dropout": False}
QUICK = (9, 10, 11, 12, 13, 13, 14, 14)


def gpt3(layers: Sequence[int] = (12,) * 8, **kernel: Any) -> list[float]:
    """Bytes of each stage with so many layers, by the memory chapter's formulas."""
    return [one.total for one in partition.stage_bytes("gpt3-175b", GPT3, layers, **kernel)]


def by_memory() -> list[int]:
    """The split whose fullest stage is least full."""
    return partition.by_memory("gpt3-175b", GPT3)
