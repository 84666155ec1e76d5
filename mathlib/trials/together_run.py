"""A run along three axes on eight processes, taken apart: the model it trains, the bytes that a
rank sends along each axis, what a rank holds, and a checkpoint that goes on in another layout.

2 stages x 2 replicas x 2 tensor ranks. Numbers have 8 bytes where weights are compared, 4 else.
"""

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn

from mathlib import launch
from mathlib.layout import Layout
from mathlib.memory import activations, states
from mathlib.meters import live, wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline.copies import Copies
from mathlib.parallel.plain.together import Together
from mathlib.parallel.together import resharded_checkpoint, traffic_by_axis
from mathlib.parallel.together.grid import COPIES, PIPELINE
from mathlib.parallel.together.hybrid_parallel import HybridParallel
from mathlib.parallel.together.updates import Updates

SHAPE = gpt.small(layers=4, width=32, heads=4, context=16, ffn_width=128, vocab=64)
SEQUENCES, STEPS, NUMBER = 8, 2, 4  # bytes
CLIP = 0.05  # of the gradient's norm, which is larger
THREE = Layout(pipeline=2, data=2, tensor=2, zero=1, micro_batch=2, micro_batches=2)
ANOTHER = Layout(context=2, data=2, tensor=2, sequence_parallel=True, zero=1)
LEFT_OUT: dict[str, tuple[Any, str]] = {  # what, and the step of an update that does it
    "": (None, ""),
    "the tied table is not summed": (Copies, "add_up"),
    "the norm is not bounded": (Updates, "clip"),
}


def batch(step: int = 0) -> list[Tensor]:
    """Tokens and targets of all replicas; every fifth target does not count."""
    tokens, targets = (t % SHAPE.vocab for t in data.batch(SEQUENCES, SHAPE.context, step))
    number = torch.arange(tokens.numel()).view_as(tokens)
    return [tokens, targets.where(number % 5 > 0, oracle.NOT_COUNTED)]


@cache
def by_one(optimizer: str) -> list[tuple[float, dict[str, Tensor]]]:
    """Loss and weights of one process after each step."""
    model: nn.Module = gpt.GPT(SHAPE).double()
    made, found = oracle.OPTIMIZERS[optimizer](model.parameters()), []
    for step in range(STEPS):
        loss = oracle.step(model, made, *batch(step), clip=CLIP)
        found.append((loss, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return found


def make(layout: Layout, optimizer: str = "Adam", **options: Any) -> HybridParallel:
    """This rank's part of the run."""
    how: dict[str, Any] = {"clip": CLIP, "dtype": torch.float64} | options
    made: Any = oracle.OPTIMIZERS[optimizer]
    return HybridParallel(SHAPE, layout, made, **how)


def apart(way: HybridParallel, weights: Mapping[str, Tensor]) -> float:
    """How far this rank's parts are from one process's."""
    far = []
    for name, held in way.held():
        for offsets, view in held.views.items():
            box = tuple(slice(o, o + n) for o, n in zip(offsets, view.shape, strict=True))
            far.append((view - weights[name][box]).abs().max())
    return torch.stack(far).max().item()


def _trained(optimizer: str, what: str, wanted: list) -> float:
    """The largest distance of a loss or a weight from one process, after any step."""
    way, far = make(THREE, optimizer), []
    where, name = LEFT_OUT[what]
    for step, (loss, weights) in enumerate(wanted):
        with patch.object(where, name, lambda self: None) if what else patch.dict({}):
            far.append(abs(way.step(*way.my_sequences(*batch(step))) - loss))
        far.append(apart(way, weights))
    return max(far)


def _plain(wanted: list) -> float:
    """How far the losses of the plain file are from one process's."""
    make = oracle.OPTIMIZERS["SGD"]
    way = Together(gpt.GPT(SHAPE).double(), make, micro_batches=2, clip=CLIP)
    return max(abs(way.step(*batch(step)) - loss) for step, (loss, _) in enumerate(wanted))


# What a rank sends, and holds

Sent = tuple[dict[str, float], dict[str, float], float]


def _sent(layout: Layout) -> Sent:
    """Bytes by axis by the formulas and by the program, and of the system."""
    way = make(layout, dtype=torch.float32, clip=float("inf"))
    tokens, targets = way.my_sequences(*batch())
    way.run(tokens, targets)  # opens connections
    way.update()
    with wire.sent() as found:
        way.run(tokens, targets)
        way.update()
    formula = traffic_by_axis.predicted(way, len(tokens), SHAPE.context)
    program = {axis: size for axis, size in way.sent(found).items() if size}
    return formula, program, found.system


class Held(NamedTuple):
    """Bytes on a rank: by the formulas, and seen."""

    stage: int
    formula: dict[str, float]
    seen: dict[str, float]


def _held() -> Held:
    way = make(THREE, dtype=torch.float32, clip=float("inf"))
    tokens, targets = way.my_sequences(*batch())
    way.step(tokens, targets)
    stage, n = way.grid.at["pp"], sum(p.numel() for p in way.stage.places)
    with live.live(nn.ModuleList(way.stage.chunks.values())) as meter:
        for given in (tokens, targets):
            meter.follow(given, "temporary")  # the batch itself is no activation
        way.run(tokens, targets)
    most = max(row["activations"] for row in meter.timeline().rows)
    leaves = way.updates.leaves
    moments = 2 * sum(leaf.numbers.numel() for leaf in leaves)
    seen = {"weights": n, "moments": moments, "activations": most / NUMBER}
    return Held(stage, _formula(stage), {name: NUMBER * size for name, size in seen.items()})


def _formula(stage: int) -> dict[str, float]:
    """Weights of a stage, Adam's two moments over the replicas, and what its micro-batches in
    flight keep.
    """
    own = NUMBER * states.stage_parameters(SHAPE, THREE, stage).total
    of: dict[str, Any] = {"bytes_per_element": NUMBER, "attention": "standard"}
    kept = activations.stage(SHAPE, THREE, stage=stage, small_tensors=True, **of).total
    return {"weights": own, "moments": 2 * own / THREE.data, "activations": kept}


class Rank(NamedTuple):
    """What one of the eight saw."""

    far: dict[tuple[str, str], float]  # by optimizer and what is left out
    plain: float
    sent: Sent
    held: Held
    resumed: tuple[float, float]  # before and after the change of layout


def _rank(wanted: dict[str, list], folder: str) -> Rank:
    cases = [("SGD", what) for what in LEFT_OUT] + [("Adam", "")]
    far = {(name, what): _trained(name, what, wanted[name]) for name, what in cases}
    return Rank(far, _plain(wanted["SGD"]), _sent(THREE), _held(), _resumed(wanted["Adam"], folder))


def _resumed(wanted: list, folder: str) -> tuple[float, float]:
    """A step in one layout and the next one in another: how far each is from one process."""
    (_, first), (_, second) = wanted
    way = make(THREE)
    way.step(*way.my_sequences(*batch(0)))
    before = apart(way, first)
    path = resharded_checkpoint.save(way, Path(folder), 1)
    way = make(ANOTHER, seed=5)
    step, _ = resharded_checkpoint.resume(way, path)
    way.step(*way.my_sequences(*batch(step)))
    return before, apart(way, second)


@cache
def taken_apart() -> list[Rank]:
    """All of it, by rank."""
    wanted = {name: by_one(name) for name in oracle.OPTIMIZERS}
    with tempfile.TemporaryDirectory() as folder:
        return launch.run(_rank, 8, wanted, folder)


def farthest() -> dict[tuple[str, str], float]:
    """Of any rank, by optimizer and what is left out."""
    found = taken_apart()
    return {case: max(rank.far[case] for rank in found) for case in found[0].far}


def sent(rank: int = 0) -> dict[str, tuple[float, float]]:
    """Bytes that a rank sends in a step along each axis: formula, program."""
    formula, program, _ = taken_apart()[rank].sent
    names = {PIPELINE: "pipeline", COPIES: "tied table", "data": "data", "tensor": "tensor"}
    return {names[axis]: (formula[axis], program.get(axis, 0)) for axis in names if axis in formula}


def sent_in(layout: Layout) -> list[Sent]:
    """The same of another layout, by rank."""
    return launch.run(_sent, layout.world, layout)


def fullest() -> Held:
    """The rank that holds most at its fullest moment."""
    return max((rank.held for rank in taken_apart()), key=lambda held: sum(held.seen.values()))
