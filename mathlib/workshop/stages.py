"""A pipeline's stage, as a program uses it: forward and backward of a micro-batch through a chunk.

p stages · v chunks a stage · m micro-batches
A micro-batch takes F seconds forward and B seconds backward on a stage, a v-th of them on a chunk.
Chunk c of stage s is layer c p + s of the model.  A stage keeps an input until its backward.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mathlib.checks import InputError
from mathlib.schedule import bubble
from mathlib.workshop.diagnosis import differs, sum_differs, total
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.ranks import Me
from mathlib.workshop.tensor import Tensor, matrix

F, B = 1.0, 2.0


class Pipeline:
    """A model over stages, its micro-batches, and what each stage did."""

    def __init__(self, stages: int, micro_batches: int, chunks: int = 1):
        self.p, self.m, self.v = stages, micro_batches, chunks
        self.model = Network(layers=stages * chunks)
        self.weights = self.model.weights()
        self.batches = [self.model.batch(f"micro-batch {i}", 2) for i in range(micro_batches)]
        self.stages: dict[int, Stage] = {}

    def stage(self, me: Me) -> "Stage":
        """A rank's own."""
        self.stages[me.rank] = Stage(self, me)
        return self.stages[me.rank]

    @property
    def seconds(self) -> float:
        """Of a step with free messages: m (F+B) + (p-1) (F+B) / v."""
        order = "1f1b" if self.v == 1 else "interleaved"
        sizes: dict[str, Any] = {"stages": self.p, "micro_batches": self.m, "chunks": self.v}
        return self.m * (F + B) + bubble.idle(order=order, **sizes, forward=F, backward=B)

    def wrong(self, order: str) -> Iterator[str]:
        """What stages did not do, did wrong, or held too much of."""
        own = [self.model.gradient(self.weights, batch) for batch in self.batches]
        for s, stage in sorted(self.stages.items()):
            for (i, c), what in stage.open.items():
                yield f"stage {s} has not done the {what} of {named(i, c, self.v)}"
            for c in range(self.v):
                parts = [of[c * self.p + s] for of in own]
                told = gradient_differs(stage.gradients[c], parts)
                if told:
                    yield f"stage {s}: the gradient of its weights {told}"
        for s, stage in sorted(self.stages.items()):
            sizes = {"stages": self.p, "micro_batches": self.m, "chunks": self.v, "stage": s}
            most = bubble.held(order=order, **sizes) * self.v
            if stage.most > most:
                what = "micro-batches" if self.v == 1 else "inputs of chunks"
                said = "1F1B" if order == "1f1b" else order
                yield f"stage {s} holds {stage.most} {what}: {said} holds at most {most:g} there"


def gradient_differs(got: Tensor | None, parts: Sequence[Tensor]) -> str:
    """By the micro-batches of which it is the sum."""
    if got is None:
        return "has no term"
    if len(parts) > 8:
        return differs(got, total(parts))
    return sum_differs(got, parts, "term", None, who="micro-batch")


class Stage:
    """What one rank has of the model."""

    def __init__(self, of: Pipeline, me: Me):
        self.of, self.me = of, me
        self.inputs = dict[tuple[int, int], Tensor]()  # until the backward
        self.open = {(i, c): "forward" for c in range(of.v) for i in range(of.m)}
        self.gradients: list[Tensor | None] = [None] * of.v
        self.most = 0  # inputs that it held at once

    def forward(self, i: int, x: Tensor | None = None, chunk: int = 0) -> Tensor:
        """Micro-batch i through a chunk; the model's first one has its input itself."""
        layer = self._begin("forward", i, chunk)
        if (x is None) != (layer == 0):
            raise InputError(
                f"forward of {self._named(i, chunk)}: {'no' if x is None else 'an'} input"
            )
        self.open[i, chunk] = "backward"
        self.me.compute(F / self.of.v)
        self.inputs[i, chunk] = self._batch(i)[0][:] if x is None else x
        self.most = max(self.most, len(self.inputs))
        return self.of.model.forward(self.of.weights[layer], self.inputs[i, chunk])

    def backward(self, i: int, dy: Tensor | None = None, chunk: int = 0) -> Tensor:
        """Its gradient back through the chunk; the model's last one begins with the loss."""
        layer = self._begin("backward", i, chunk)
        last = layer == self.of.model.layers - 1
        if (dy is None) != last:
            said = "no" if dy is None else "a"
            raise InputError(f"backward of {self._named(i, chunk)}: {said} gradient of its output")
        del self.open[i, chunk]
        self.me.compute(B / self.of.v)
        weights, x = self.of.weights[layer], self.inputs.pop((i, chunk))
        if dy is None:
            target = self._batch(i)[1]
            dy = (self.of.model.forward(weights, x) - target) * 2 / len(target)
        dx, gradient = self.of.model.backward(weights, x, dy)
        before = self.gradients[chunk]
        self.gradients[chunk] = gradient if before is None else before + gradient
        return matrix(dx.rows)

    def _begin(self, what: str, i: Any, chunk: Any) -> int:
        """The layer; refused where it is not this one's turn."""
        if not (isinstance(i, int) and isinstance(chunk, int)) or not (
            0 <= i < self.of.m and 0 <= chunk < self.of.v
        ):
            raise InputError(
                f"{what} of micro-batch {i}, chunk {chunk}: expected micro-batches 0 to "
                f"{self.of.m - 1}, chunks 0 to {self.of.v - 1}"
            )
        there = self.open.get((i, chunk), "")
        if there != what:
            said = "before its forward" if there else "for the second time"
            said = "for the second time" if what == "forward" else said
            raise InputError(f"{what} of {self._named(i, chunk)} {said}")
        return chunk * self.of.p + self.me.rank

    def _batch(self, i: int) -> Batch:
        return self.of.batches[i]

    def _named(self, i: int, chunk: int) -> str:
        return named(i, chunk, self.of.v)


def named(i: int, chunk: int, chunks: int) -> str:
    """A micro-batch; of several chunks, through which."""
    return f"micro-batch {i}" + (f" through chunk {chunk}" if chunks > 1 else "")
