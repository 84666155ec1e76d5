"""A vision tower before a text model on three stages of a pipeline: weights beside one process,
bytes between stages, by cut.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from mathlib import launch, specs
from mathlib.compute.vision import Tower
from mathlib.meters import wire
from mathlib.model import oracle
from mathlib.model.seeing import Seeing
from mathlib.parallel.pipeline.towers import TowerPipeline
from mathlib.schedule import orders, partition

SMALL = Tower(layers=4, width=16, heads=2, ffn_width=32, image=16, patch=4)
TEXT = specs.find_model("llama3-8b").but(
    **{"name": "small", "title": "a small Llama", "layers": 4, "width": 24, "heads": 4},
    **{"kv_heads": 2, "head_dim": 6, "ffn_width": 64, "vocab": 40, "context": 24},
)
STAGES, SEQUENCES, STEPS, NUMBER = 3, 6, 3, 8  # micro-batches as many as sequences; bytes


def batch(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images, tokens and targets; the places of patches have none."""
    draw = torch.Generator().manual_seed(step)
    pixels = (SMALL.channels, SMALL.image, SMALL.image)
    images = torch.randn(SEQUENCES, *pixels, generator=draw, dtype=torch.double)
    tokens = torch.randint(TEXT.vocab, (SEQUENCES, TEXT.context), generator=draw)
    targets = tokens.roll(-1, 1)
    targets[:, : SMALL.patches - 1] = targets[:, -1] = oracle.NOT_COUNTED
    return images, tokens, targets


def cuts() -> dict[str, list[int]]:
    """Layers of each stage: where the slowest is quickest, and elsewhere, once inside the tower."""
    times, patches, head = partition.work_with_tower(SMALL, TEXT, images=1)
    best = partition.by_time(times=times, stages=STAGES, embedding=patches, head=head)
    return {"least work of the slowest": list(best), "inside the tower": [3, 3, 2]}


class Run(NamedTuple):
    """How far any weight is from one process after any step; bytes that each stage sends a step."""

    far: float
    told: list[int]
    program: list[float]


def _stages(split: list[int], swapped: bool) -> tuple[list[dict[str, Tensor]], float]:
    schedule = orders.make("1f1b", stages=STAGES, micro_batches=SEQUENCES)
    how = {"stage": dist.get_rank(), "tokens": TEXT.context, "dtype": torch.double}
    make, history = oracle.OPTIMIZERS["Adam"], []
    way = TowerPipeline(SMALL, TEXT, split, schedule, make, **how)  # type: ignore[arg-type]
    for step in range(STEPS):
        images, tokens, targets = batch(step)
        with wire.counted() as program:
            way.look(images.flip(0) if swapped else images, tokens, targets)
        way.step()
        history.append({name: p.clone() for name, p in way.weights().items()})
    return history, program.sent


def _one() -> list[dict[str, Tensor]]:
    net, history = Seeing(SMALL, TEXT).double(), []
    made = oracle.OPTIMIZERS["Adam"](net.parameters())
    for step in range(STEPS):
        images, tokens, targets = batch(step)
        scores = net(images, tokens).flatten(0, 1)
        F.cross_entropy(scores, targets.flatten(), ignore_index=oracle.NOT_COUNTED).backward()
        made.step()
        made.zero_grad()
        history.append({name: p.detach().clone() for name, p in net.named_parameters()})
    return history


def run(split: list[int], swapped: bool = False) -> Run:
    """A split on ranks; `swapped`: sequences get each other's images."""
    of_ranks, wanted = launch.run(_stages, STAGES, split, swapped), _one()
    far = max(
        (p - one[name]).abs().max().item()
        for history, _ in of_ranks
        for mine, one in zip(history, wanted, strict=True)
        for name, p in mine.items()
    )
    each = [h * w for h, w in partition.passed_with_tower(SMALL, TEXT, split)]
    told = [NUMBER * SEQUENCES * (a + b) for a, b in zip([*each, 0], [0, *each], strict=True)]
    return Run(far, told, [sent for _, sent in of_ranks])
