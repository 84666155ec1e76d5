"""A vision tower before a text model, over the stages of a pipeline that need not be alike.

What passes between two stages has its own shape: inside the tower, behind its projector, and from
the first layer of the text model on. Images begin at the first stage, and words enter where that
layer is; so every rank has the batch.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from torch import Tensor

from mathlib.checks import InputError
from mathlib.compute.vision import Tower
from mathlib.model.seeing import Seeing
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.schedule import partition
from mathlib.schedule.actions import Schedule
from mathlib.specs import Model


class TowerPipeline(Pipeline):
    """Train a tower, projector and text model in stages of so many layers as `split` says.

    tokens: of a sequence, an image's patches among them.  dtype: of weights and messages.  All
    other options are a Pipeline's.
    """

    def __init__(
        self,
        tower: Tower,
        text: Model,
        split: Sequence[int],
        schedule: Schedule,
        make: MakeOptimizer,
        *,
        stage: int,
        tokens: int,
        dtype: Any = None,
        seed: int = 0,
        **options: Any,
    ):
        self.passed = partition.passed_with_tower(tower, text, split, tokens=tokens)
        if schedule.model_chunks != len(split) or schedule.weights != "flush":
            raise InputError(
                f"schedule of {schedule.model_chunks} chunks, weights = {schedule.weights!r}: "
                f"expected {len(split)}, one for each part of the split, and 'flush'"
            )
        ends = [0, *accumulate(split)]
        chunks = {
            c: Seeing(tower, text, range(ends[c], ends[c + 1]), seed).to(dtype)
            for c in schedule.chunks_of(stage)
        }
        super().__init__(chunks, schedule, make, width=text.width, **options)

    def look(
        self, images: Tensor, tokens: Tensor, targets: Tensor, counted: int | None = None
    ) -> dict[int, float]:
        """`run` on sequences that begin with an image each."""
        if len(images) != len(tokens):
            raise InputError(f"images = {len(images)}: expected {len(tokens)}, one for a sequence")
        self.images = images.tensor_split(self.schedule.micro_batches)
        return self.run(tokens, targets, counted)

    def _shape(self, i: int, c: int) -> tuple[int, ...]:
        return len(self.tokens[i]), *self.passed[c - 1]

    def _compute(self, i: int, c: int, x: Tensor) -> Tensor:
        found: Tensor = self.chunks[c](x if c else self.images[i], self.tokens[i])
        return found
