"""Faults of data parallelism and of accumulation."""

from mathlib.layout import Layout
from mathlib.prover.faults import Without, fault
from mathlib.prover.modular import Matrix, inverse, times
from mathlib.prover.network import Parameter
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.prover.shards import Flat
from mathlib.schedule.actions import Action

TWO = Layout(data=2, micro_batches=2)
BOTH = Layout(data=2, tensor=2)


@fault("replica-sum", TWO, "gradient norm rank 0", "huggingface/picotron#5")
class ReplicaSum(Without):
    """Gradients are not summed over replicas."""

    axis = "shard replicas"


@fault("mean-of-means", TWO, "forward loss rank 0", "huggingface/transformers#34191")
class MeanOfMeans(Program):
    """A replica divides by its own tokens that count, and replicas weigh alike."""

    def weight(self, sequence: int, place: int, micro_batch: int) -> int:
        counted = sum(self.counts(i) for i in range(self.layout.micro_batches))
        own = inverse(counted * self.layout.data)
        return own * self.case.drawn.counts[sequence][place]

    def counts(self, i: int) -> int:
        """What the rank's targets of a micro-batch weigh."""
        return sum(self.case.drawn.counts[n][place] for n, place in self.rows(i, self.tokens()))


@fault("equal-micro-batches", TWO, "forward loss rank 0", "huggingface/transformers#34191")
class EqualMicroBatches(MeanOfMeans):
    """The mean of micro-batches' means: one with few tokens weighs as much as any other."""

    def weight(self, sequence: int, place: int, micro_batch: int) -> int:
        lay = self.layout
        own = inverse(self.counts(micro_batch) * lay.micro_batches * lay.data)
        return own * self.case.drawn.counts[sequence][place]


@fault("scaled-twice", TWO, "forward loss rank 0", "deepspeedai/Megatron-DeepSpeed#42")
class ScaledTwice(Program):
    """The loss is divided by the number of micro-batches by the trainer and by the engine."""

    def weight(self, sequence: int, place: int, micro_batch: int) -> int:
        return super().weight(sequence, place, micro_batch) * inverse(self.layout.micro_batches)


@fault("summed-micro-batches", TWO, "forward loss rank 0", "deepspeedai/DeepSpeed#7773")
class SummedMicroBatches(Program):
    """Micro-batches' means are summed and not divided by their number; Adam hides it."""

    def weight(self, sequence: int, place: int, micro_batch: int) -> int:
        return super().weight(sequence, place, micro_batch) * self.layout.micro_batches


@fault("scaled-each-time", TWO, "gradient norm rank 0", "pytorch/torchtitan#1733")
class ScaledEachTime(Program):
    """What has been accumulated is divided again after each micro-batch."""

    def act(self, action: Action) -> Asks:
        yield from super().act(action)
        if action.kind == "B":
            for node in self.nodes.values():
                node.gradient = times(node.came_back, inverse(self.layout.micro_batches))


@fault("averaged-again", TWO, "gradient norm rank 0", "NovaSky-AI/SkyRL#1420")
class AveragedAgain(Program):
    """Gradients are averaged over replicas, though the loss was divided by all tokens."""

    def scaled(self, unit: str, gradient: Flat) -> Flat:
        return times([gradient], inverse(self.layout.data))[0]


@fault("same-batch", TWO, "forward embedding rank 1", "karpathy/llama2.c#522")
class SameBatch(Program):
    """Every replica reads the first one's sequences."""

    def sequences(self, micro_batch: int) -> list[int]:
        return [
            n % (self.layout.sequences // self.layout.data) for n in super().sequences(micro_batch)
        ]


@fault("masked-tokens", TWO, "forward loss rank 0")
class MaskedTokens(Program):
    """Targets that do not count are counted in what the loss is divided by."""

    def count(self) -> Asks:
        yield from super().count()
        self.counted += sum(row.count(0) for row in self.case.drawn.counts)


@fault("overwritten", TWO, "gradient norm rank 0")
class Overwritten(Program):
    """Each micro-batch's gradients replace those before."""

    def act(self, action: Action) -> Asks:
        if action.kind == "B":
            for node in self.nodes.values():
                node.gradient = []
        yield from super().act(action)


@fault("summed-early", TWO, "gradient norm rank 0", "modelscope/FunASR#3472")
class SummedEarly(Program):
    """Replicas sum before the last micro-batch, whose gradients stay where they are."""

    def act(self, action: Action) -> Asks:
        if action.kind == "B" and action.micro_batch == self.layout.micro_batches - 1:
            yield from self.reduce(list(self.weights))
            for unit in self.weights:
                yield from super().sum_copies(unit)
        yield from super().act(action)

    def sum_copies(self, unit: str) -> Asks:
        yield from ()


@fault("summed-every-time", TWO, "gradient norm rank 0", "hpcaitech/ColossalAI#247")
class SummedEveryTime(Program):
    """What has been accumulated is summed over replicas after each micro-batch: the first one's
    gradients count twice.
    """

    def act(self, action: Action) -> Asks:
        yield from super().act(action)
        if action.kind == "B":
            for name, node in self.nodes.items():
                what = f"gradient of {name}"
                node.gradient = yield from self.exchange(
                    "all-reduce", "replicas", node.came_back, what
                )

    def sum_copies(self, unit: str) -> Asks:
        yield from ()


@fault("unused-parameter", TWO, "stuck", "pytorch/pytorch#72843")
class UnusedParameter(Program):
    """A replica that did not use a parameter leaves its sum out; the others wait, or meet it in
    another sum.
    """

    def sum_copies(self, unit: str) -> Asks:
        if self.at["dp"] == 0 or unit != "positions":
            yield from super().sum_copies(unit)


@fault("bucket-order", TWO, "gradient layers.1.down_bias rank 0", "deepspeedai/DeepSpeed#2343")
class BucketOrder(Program):
    """A replica sums two layers in the other order; they are of one size, and nobody notices."""

    def finish(self) -> Asks:
        if self.at["dp"] == 1:
            units = list(self.weights)
            first, second = units.index("layers.0"), units.index("layers.1")
            units[first], units[second] = units[second], units[first]
            self.weights = {unit: self.weights[unit] for unit in units}
        yield from super().finish()


@fault("replica-group-order", BOTH, "stuck", "modelscope/ms-swift#6655")
class ReplicaGroupOrder(Program):
    """Groups of replicas are made of neighbours, which have different parts of the matrices."""

    def group(self, axis: str) -> tuple[int, ...]:
        if axis != "shard replicas":
            return super().group(axis)
        first = self.rank // self.layout.data * self.layout.data
        return tuple(range(first, first + self.layout.data))


@fault("replicas-start-apart", TWO, "forward embedding rank 1")
class ReplicasStartApart(Program):
    """Nobody sends the first replica's weights to the others, which start from other seeds."""

    def initial(self, p: Parameter) -> Matrix:
        return times(super().initial(p), 1 + self.at["dp"])


@fault("momentum-lost", TWO, "momenta embedding rank 0")
class MomentumLost(Program):
    """A run resumes with weights, and without the optimizer's state."""

    def load(self) -> None:
        super().load()
        self.momenta = {unit: [0] * len(shard) for unit, shard in self.momenta.items()}


@fault("one-replica-updates", TWO, "weights embedding rank 1")
class OneReplicaUpdates(Program):
    """Only the first replica makes the step, and nobody gets its weights."""

    def update(self, unit: str, gradient: Flat) -> None:
        before = self.weights[unit]
        super().update(unit, gradient)
        if self.at["dp"]:
            self.weights[unit] = before
