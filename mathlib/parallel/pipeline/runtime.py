"""Pipeline parallel training: the engine of any schedule, and what updates weights.

p stages · m micro_batches
Gradients of copies are added up before a step: of replicas, of chunks that run in both directions,
of an embedding tied between two stages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib.checks import InputError
from mathlib.parallel.pipeline import copies, model_chunks
from mathlib.parallel.pipeline.engine import Batch, Engine
from mathlib.parallel.pipeline.weight_versions import Versions
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.weights import versions


class Pipeline(Engine):
    """Train chunks in place: `run` as often as you like, then `step`; with weights that change
    in flight, `run` does the steps.  Options are those of an Engine.
    """

    def __init__(
        self,
        chunks: Mapping[int, nn.Module],
        schedule: Schedule,
        make: MakeOptimizer,
        **options: Any,
    ):
        super().__init__(chunks, schedule, **options)
        self.copies = copies.Copies(copies.keys(self.chunks))
        self.replicas = _column(self.rows, self.stage)
        self.optimizer = make(list(model_chunks.named(self.chunks).values()))  # type: ignore[arg-type]
        self.changing = None if schedule.weights == "flush" else self._only_chunk()
        self.versions: Versions | None = None
        self.backwards = 0

    def _only_chunk(self) -> nn.Module:
        """The chunk of a stage whose weights change under way."""
        if len(self.chunks) > 1:
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: expected one chunk a stage"
            )
        if shared := self.copies.within(self.rows[0]):
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: stages change theirs at "
                f"different times, and two of them hold {shared[0]}; expected no tied parameter"
            )
        return next(iter(self.chunks.values()))

    def run(self, tokens: Batch, targets: Batch, counted: int | None = None) -> dict[int, float]:
        """All actions of this rank; returns, on the last chunk's rank, what each micro-batch adds
        to the mean loss.

        counted: tokens that count in all runs until the next step and on all replicas, where this
        run is one of several.
        """
        self.backwards = 0
        if self.changing:
            self.versions = Versions(self.changing, versions(self.schedule, stage=self.stage))
        return super().run(tokens, targets, counted)

    def step(self) -> None:
        """Add up the gradients of copies and update the weights."""
        if self.changing:
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: run has done the steps"
            )
        self.copies.add_up()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, Tensor]:
        """This rank's parameters by their names in the whole model."""
        return {name: p.detach() for name, p in model_chunks.named(self.chunks).items()}

    def gradients(self) -> dict[str, Tensor | None]:
        """What `run` has left so far, this rank's share of it, by the same names."""
        return {name: p.grad for name, p in model_chunks.named(self.chunks).items()}

    def _count(self, counted: int | None) -> list[int]:
        whole = torch.tensor(super()._count(counted))
        if counted is None and len(self.rows) > 1:
            dist.all_reduce(whole, group=self.replicas)
        return whole.tolist()

    def _compute(self, i: int, c: int, x: Tensor) -> Tensor:
        return self.versions.forward(i, x) if self.versions else super()._compute(i, c, x)

    def _backward(self, action: Action, dy: Tensor | None) -> Tensor | None:
        found = super()._backward(action, dy)
        if self.versions:
            self._update_under_way(action.micro_batch)
        return found

    def _update_under_way(self, i: int) -> None:
        """After the last backward of an update: the weights change while others are under way."""
        assert self.versions
        self.versions.backward_done(i)
        self.backwards += 1
        if self.backwards % self.schedule.accumulate == 0:
            self.copies.add_up()
            self.versions.update(self.optimizer)


def _column(rows: Sequence[Sequence[int]], stage: int) -> dist.ProcessGroup | None:
    """The group of those who hold this stage in some replica; every rank must call this."""
    groups = [dist.new_group(list(column)) for column in zip(*rows, strict=True)]
    return groups[stage]
