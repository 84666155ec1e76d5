"""One training step along all axes: pipeline, data with ZeRO, context, experts, tensor.

A rank has a stage of the pipeline, of that some experts and a part of every matrix, and of the
batch some sequences, of these some tokens.  A step is

run       the stage's actions, micro-batch by micro-batch; inside a chunk, tensor ranks all-reduce,
          context ranks pass on keys and values, expert ranks exchange tokens
update    gradients are added up over the ranks that hold the same weights, their norm is bounded,
          the optimizer steps, and what ZeRO has sharded is gathered
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib.checks import InputError, positive
from mathlib.layout import Layout
from mathlib.meters import wire
from mathlib.model.oracle import NOT_COUNTED
from mathlib.parallel.boxes import Held
from mathlib.parallel.pipeline.engine import Engine, summed_loss
from mathlib.parallel.sequences.context import picked
from mathlib.parallel.tensor.split_words import summed_cross_entropy
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.parallel.together import stage
from mathlib.parallel.together.grid import Grid
from mathlib.parallel.together.updates import Updates
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.schedule import orders
from mathlib.schedule.actions import Schedule
from mathlib.specs import Model


class HybridParallel:
    """Trains a GPT or a Modern of this shape, spread by a layout; every rank makes it.

    `step` takes the sequences of this rank's replica, which are the same on all its ranks:
    `my_sequences` picks them out of a batch. They are cut into the layout's `micro_batches`, which
    may be unequal, and so may the tokens that count. `schedule`: an order's name or a schedule;
    `layers` of each chunk, if not equally many. `clip` bounds the norm of the whole gradient.
    Several runs of one layout can share a `grid`.
    """

    def __init__(
        self,
        model: Model,
        layout: Layout,
        make: MakeOptimizer,
        *,
        schedule: str | Schedule = "1f1b",
        layers: Sequence[Sequence[int]] | None = None,
        attention: str = "plain",
        order: str = "zigzag",
        clip: float = math.inf,
        dtype: torch.dtype | None = None,
        seed: int = 0,
        grid: Grid | None = None,
    ):
        if not math.isinf(clip):
            positive("clip", clip)
        self.model, self.layout = model, layout
        self.schedule = scheduled(schedule, layout)
        check(self.schedule, layout, model)
        self.grid = grid or Grid(layout)
        self.stage = stage.build(
            model,
            layout,
            self.schedule,
            self.grid,
            layers=layers,
            attention=attention,
            order=order,
            dtype=dtype,
            seed=seed,
        )
        self.updates = Updates(self.stage, self.grid, make, layout.zero, clip)
        self.split = layout.tensor if layout.sequence_parallel else 1
        self.engine = Engine(
            self.stage.chunks,
            self.schedule,
            width=model.width,
            ranks=self.grid.pipelines,
            loss=self._loss(),
            sharing=self.split,
        )

    def _loss(self):  # type: ignore[no-untyped-def]
        """Of the last chunk's logits: of all words, or of this tensor rank's."""
        last = self.stage.chunks.get(self.schedule.model_chunks - 1)
        if isinstance(last, TensorParallel):
            return partial(summed_cross_entropy, own=last.own, group=last.group)
        return summed_loss

    def my_sequences(self, *batch: Tensor) -> list[Tensor]:
        """Those of this rank's replica; replicas' numbers differ by one at most."""
        return [x.tensor_split(self.layout.data)[self.grid.at["dp"]] for x in batch]

    def step(self, tokens: Tensor, targets: Tensor) -> float:
        """Train on the sequences of this replica; the mean loss of the whole batch, on all
        ranks.
        """
        loss = torch.tensor(self.run(tokens, targets) / self.layout.tensor, dtype=torch.float64)
        dist.all_reduce(loss)
        self.update()
        return loss.item()

    def run(self, tokens: Tensor, targets: Tensor, counted: int | None = None) -> float:
        """Forward and backward; what this rank's tokens add to the mean loss, on the last stage.

        counted: tokens that count in all runs until the next update and on all replicas, where
        this is one of several.
        """
        if counted is None:
            counted = self._count(targets)
        losses = self.engine.run(*self._own(tokens, targets), counted=counted)
        return math.fsum(losses.values())

    def update(self) -> Tensor | None:
        """Once a step: use the gradients; their norm, if it is bounded."""
        return self.updates()

    def _count(self, targets: Tensor) -> int:
        """Tokens that count on all replicas: the ranks of a context group have the same."""
        found = (targets != NOT_COUNTED).sum()
        dist.all_reduce(found, group=self.grid.groups["data"])
        return int(found) // self.layout.context

    def _own(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's places of each sequence, which is filled up to what divides evenly."""
        s, contexts = tokens.shape[1], self.stage.contexts
        many = self.split * (contexts[0].multiple if contexts else 1)
        filled = s + -s % many
        places = contexts[0].mine(filled) if contexts else torch.arange(filled)
        for chunk in self.stage.inside.values():
            chunk.places = places.clamp(max=s - 1)
        for context in contexts:
            context.places = places.clamp(max=s - 1)
        return picked(places, tokens, targets)

    def held(self, state: str = "") -> Iterable[tuple[str, Held]]:
        """What this rank has of the weights, or of the optimizer's `state` such as exp_avg, by
        names of the whole model and as boxes of its parameters.
        """
        for leaf in self.updates.leaves:
            like = leaf.optimizer.state[leaf.numbers][state] if state else leaf.numbers.data
            for p, start, numbers in leaf.stretches(like):
                place = self.stage.places[p]
                yield place.name, place.held(p, start, numbers)

    def sent(self, counted: wire.Counted | wire.Sent) -> dict[str, float]:
        """What the program has sent, by axis."""
        found: dict[str, float] = {}
        for name, size in counted.by_group.items():
            axis = self.grid.axis_of(name)
            found[axis] = found.get(axis, 0) + size
        return found


def scheduled(schedule: str | Schedule, layout: Layout) -> Schedule:
    """The schedule of a layout, by its order's name."""
    if isinstance(schedule, Schedule):
        return schedule
    more = {"chunks": layout.chunks} if layout.chunks > 1 else {}
    return orders.make(schedule, stages=layout.pipeline, micro_batches=layout.micro_batches, **more)


def check(schedule: Schedule, layout: Layout, model: Model) -> None:
    """Refuse what does not go together, rather than train another model."""
    sizes = (schedule.stages, schedule.micro_batches)
    if sizes != (layout.pipeline, layout.micro_batches):
        raise InputError(
            f"schedule of {sizes[0]} stages and {sizes[1]} micro-batches: expected those of the "
            f"layout, {layout.pipeline} and {layout.micro_batches}"
        )
    if schedule.weights != "flush":
        raise InputError(
            f"schedule = {schedule.name!r}: its stages update at different times, and gradients "
            "are added up over all axes at once; expected one with a flush"
        )
    split = any(action.kind == "W" for row in schedule.actions for action in row)
    for name, value, most, why in (
        ("tensor", layout.tensor, 1, "gradients of cut matrices are formed with those of inputs"),
        ("zero", layout.zero, 1, "gradients that leave in backward must be whole by then"),
    ):
        if split and value > most:
            raise InputError(
                f"{name} = {value} with schedule = {schedule.name!r}, which puts off the weights' "
                f"gradients: expected {name} of at most {most}, as {why}"
            )
    if layout.shard < layout.replicas and layout.zero:
        raise InputError(
            f"shard = {layout.shard}: expected all {layout.replicas} ranks of data * context; for "
            "fewer take parallel.zero.mics"
        )
    if layout.zero == 3 and model.experts:
        raise InputError(
            "zero = 3 with experts: a layer's weights come and go in one group, and experts are "
            "copied over another; expected zero of at most 2"
        )
