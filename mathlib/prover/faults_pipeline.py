"""Faults of pipeline parallelism."""

from collections.abc import Iterator

from mathlib.layout import Layout
from mathlib.prover.faults import fault
from mathlib.prover.modular import Matrix, inverse, plus, times, zeros
from mathlib.prover.network import Parameter
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.schedule import orders
from mathlib.schedule.actions import Action

TWO = Layout(pipeline=2, micro_batches=4)
CHUNKS = Layout(pipeline=2, chunks=2, micro_batches=2)
BOTH = Layout(tensor=2, pipeline=2, micro_batches=2)


@fault("tied-sum", TWO, "gradient embedding rank 0", "uw-syfi/piper#13")
class TiedSum(Program):
    """The first and the last stage do not sum the gradients of the embedding that they share."""

    def copies(self, name: str) -> tuple[int, ...]:
        return (self.rank,)


@fault("tied-averaged", TWO, "gradient embedding rank 0")
class TiedAveraged(Program):
    """The gradients of the shared embedding are averaged over the stages that have it."""

    def sum_copies(self, unit: str) -> Asks:
        yield from super().sum_copies(unit)
        if len(self.copies(self.inside[unit][0].name)) > 1:
            self.gradients[unit] = times([self.gradients[unit]], inverse(2))[0]


@fault("tied-start", TWO, "forward loss rank 1", "sgl-project/sglang#15890")
class TiedStart(Program):
    """The last stage's copy of the embedding starts from a seed of its own."""

    def initial(self, p: Parameter) -> Matrix:
        found = super().initial(p)
        return times(found, 2) if p.name == "embedding" and self.stage else found


@fault("embedding-group", BOTH, "stuck", "NVIDIA-NeMo/Megatron-Bridge#4985")
class EmbeddingGroup(Program):
    """Groups of first and last stages are made in another order, and join different parts."""

    def copies(self, name: str) -> tuple[int, ...]:
        found = super().copies(name)
        if len(found) < 2:
            return found
        first = self.rank if self.stage == 0 else 3 - self.rank
        return (first, 3 - first)


@fault("dualpipe-copies", TWO, "gradient head rank 0", schedule="dualpipe", tied=False)
class DualPipeCopies(Program):
    """DualPipe has every chunk on two stages, and their gradients are not summed."""

    def copies(self, name: str) -> tuple[int, ...]:
        return (self.rank,)


@fault("gradients-reversed", TWO, "backward layers.0 rank 0", schedule="gpipe")
class GradientsReversed(Program):
    """A stage takes gradients as of the last micro-batch first, and they come as of the first."""

    def receive(self, action: Action) -> Asks:
        if action.kind == "B":
            action = action._replace(micro_batch=self.layout.micro_batches - 1 - action.micro_batch)
        return (yield from super().receive(action))


@fault("last-micro-batch", TWO, "forward embedding rank 0")
class LastMicroBatch(Program):
    """The loop over micro-batches ends one too early."""

    def actions(self) -> Iterator[Action]:
        last = self.layout.micro_batches - 1
        return (one for one in super().actions() if one.micro_batch < last)


@fault("scaled-at-each-stage", TWO, "backward layers.0 rank 0", "deepspeedai/DeepSpeed#8152")
class ScaledAtEachStage(Program):
    """Every stage divides the gradient that comes to it by the number of micro-batches."""

    def receive(self, action: Action) -> Asks:
        found = yield from super().receive(action)
        scale = 1 if action.kind == "F" else inverse(self.layout.micro_batches)
        return times(found, scale)


@fault(
    "layers-in-a-row",
    CHUNKS,
    "forward layers.1 rank 1",
    "sail-sg/zero-bubble-pipeline-parallelism#75",
)
class LayersInARow(Program):
    """Stages with several chunks load layers in a row, and run them as if they were interleaved."""

    def initial(self, p: Parameter) -> Matrix:
        start, layer, rest = [*p.name.split(".", 2), "", ""][:3]
        if start != "layers":
            return super().initial(p)
        stages, chunks = self.layout.pipeline, self.layout.chunks
        place = int(layer) % stages * chunks + int(layer) // stages
        return self.part(p).of(self.case.drawn.weights[f"layers.{place}.{rest}"])


@fault("last-weight-gradients", TWO, "gradient norm rank 1", schedule="zb-h1")
class LastWeightGradients(Program):
    """A schedule that puts weights' gradients off forgets those of the last micro-batch."""

    def actions(self) -> Iterator[Action]:
        last = self.layout.micro_batches - 1
        return (one for one in super().actions() if one[:2] != ("W", last))


@fault("cut-off", TWO, "backward layers.0 rank 0")
class CutOff(Program):
    """A stage's input is cut off from the graph, and the stage before gets no gradient."""

    def send(self, action: Action, rows: Matrix) -> Asks:
        none = action.kind != "F"
        yield from super().send(action, zeros(len(rows), len(rows[0])) if none else rows)


@fault("updated-between", TWO, "forward loss rank 1")
class UpdatedBetween(Program):
    """The last stage updates its weights after every micro-batch, before the next one."""

    def act(self, action: Action) -> Asks:
        yield from super().act(action)
        if action.kind == "B" and self.stage == 1:
            node = self.nodes["norm"]
            node.rows = plus(node.rows, times(node.came_back, -self.case.drawn.rates[0]))


@fault("one-stage-short", TWO, "stuck")
class OneStageShort(Program):
    """The first stage has one micro-batch fewer than the next one waits for."""

    def actions(self) -> Iterator[Action]:
        last = self.layout.micro_batches - 1
        return (one for one in super().actions() if self.stage or one.micro_batch < last)


@fault("two-schedules", Layout(pipeline=3, micro_batches=4), "stuck", "pytorch/pytorch#172668")
class TwoSchedules(Program):
    """The last stage fills and drains, and the others expect gradients after each forward."""

    def actions(self) -> Iterator[Action]:
        if self.stage < 2:
            return super().actions()
        other = orders.make("gpipe", stages=3, micro_batches=self.layout.micro_batches)
        return iter(other.actions[self.stage])


@fault(
    "wrong-replica",
    Layout(data=2, pipeline=2, micro_batches=2),
    "forward layers.1 rank 2",
    "NVIDIA-NeMo/Megatron-Bridge#2956",
)
class WrongReplica(Program):
    """Stages are paired with the next replica's, whose sequences have other targets."""

    def of_stage(self, stage: int) -> int:
        return self.case.dense.rank(pp=stage, dp=1 - self.at["dp"])
