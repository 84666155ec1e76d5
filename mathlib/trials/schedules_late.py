"""Pipelines without a flush: versions of the weights that stages keep, and gradients that come
late.

p stages · m micro_batches · d updates by which a gradient is late
"""

from functools import partial
from itertools import repeat
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import data, delayed_sgd, gpt
from mathlib.model.oracle import distance
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.pipeline.weight_versions import Versions
from mathlib.schedule.actions import Schedule
from mathlib.schedule.simulate import simulate
from mathlib.trials.pipeline import MICRO_BATCHES, SHAPE, STAGES, named

SGD = partial(torch.optim.SGD, lr=0.1)
WAYS = {  # title: order, micro-batches of an update, whether stages stash
    "PipeDream": ("pipedream", 1, True),
    "2BW": ("2bw", STAGES, True),
    "PipeDream without stashing": ("pipedream", 1, False),
}


def _run(order: str, p: int, m: int) -> Pipeline:
    layers = [part.tolist() for part in torch.arange(SHAPE.layers).tensor_split(p)]
    schedule = named(order, m, p)
    chunks = model_chunks.build(SHAPE, schedule, dist.get_rank(), layers=layers)
    double = {c: chunk.double() for c, chunk in chunks.items()}
    pipe = Pipeline(double, schedule, SGD, width=SHAPE.width)
    pipe.run(*data.batch(m, SHAPE.context))
    return pipe


def _most(p: int) -> int:
    versions = _run("pipedream", p, 3 * p).versions
    assert versions
    return versions.most


def kept(p: int) -> list[int]:
    """Versions of its weights that each of p processes kept at most in PipeDream."""
    return launch.run(_most, p, p)


def kept_in_sync(p: int) -> list[int]:
    """Versions that each stage would keep if all used the one that a micro-batch met on the first,
    counted in the lists of 3 p micro-batches.
    """
    most = []
    for row in named("pipedream", 3 * p, p).actions:
        back, here = 0, 1  # backwards, and so updates, that this stage has done
        for action in row:
            back += action.kind == "B"
            if back < 3 * p:  # micro-batch `back` is the oldest that still needs its version
                here = max(here, back - max(0, back - (p - 1)) + 1)
        most.append(here)
    return most


def _trained() -> list[tuple[dict[str, Tensor], int]]:
    found = []
    for order, _, stash in WAYS.values():
        with patch.object(Versions, "stash", Versions.stash if stash else lambda self: None):
            pipe = _run(order, STAGES, 3 * STAGES)
        assert pipe.versions
        found.append((pipe.weights(), pipe.versions.most))
    return found


def _late(name: str) -> int:
    """By how many updates PipeDream's gradient of this parameter is late."""
    kind, *rest = name.split(".")
    if kind == "blocks":
        return STAGES - 1 - int(rest[0]) * STAGES // SHAPE.layers
    return STAGES - 1 if kind in ("tokens", "positions") else 0


def _on_purpose(order: str, each: int) -> dict[str, Tensor]:
    """Weights of one process whose gradients are as late."""
    model = gpt.GPT(SHAPE, seed=0).double()
    batch = [part.split(each) for part in data.batch(3 * STAGES, SHAPE.context)]
    late = _late if order == "pipedream" else lambda name: 1
    updates = zip(*batch, strict=True)
    delayed_sgd.one_process(model, updates, SGD(model.parameters()), late)
    return {name: p.detach() for name, p in model.named_parameters()}


def three_ways() -> dict[str, tuple[float, list[int]]]:
    """Weights against one process whose gradients are late on purpose, and versions kept, after 12
    micro-batches of PipeDream, 2BW, and PipeDream that does not stash.
    """
    found = {}
    ways = zip(WAYS.items(), *launch.run(_trained, STAGES), strict=True)
    for (title, (order, each, _)), *ranks in ways:
        wanted = _on_purpose(order, each)
        weights = [(w, wanted[name]) for rank, _ in ranks for name, w in rank.items()]
        found[title] = max(distance([w], one) for w, one in weights), [most for _, most in ranks]
    return found


def in_a_row(order: str, steps: int) -> float:
    """Time of so many steps, if each stage begins its next one as soon as it is through."""
    one, m = named(order), MICRO_BATCHES
    actions = [
        [
            a._replace(micro_batch=a.micro_batch + k * m)
            for k, row in enumerate(repeat(row, steps))
            for a in row
        ]
        for row in one.actions
    ]
    return simulate(Schedule(order, m * steps, one.placements, actions)).total
