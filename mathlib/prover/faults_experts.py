"""Faults of expert parallelism."""

from collections.abc import Iterator, Sequence

from mathlib.layout import Layout
from mathlib.prover.faults import Without, fault
from mathlib.prover.mixture import Visit
from mathlib.prover.modular import Matrix, times
from mathlib.prover.network import Parameter
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.prover.shards import Flat
from mathlib.prover.tape import Node, Tape
from mathlib.schedule.actions import Action

TWO, FOUR = Layout(data=2, expert=2), Layout(data=4, expert=2)
TENSOR = Layout(data=2, tensor=2, expert=2)
SPLIT = Layout(tensor=2, expert=2, expert_tensor=1, sequence_parallel=True)


@fault("expert-scale", TWO, "gradient layers.1.experts.3.down rank 1", "deepspeedai/DeepSpeed#6546")
class ExpertScale(Program):
    """Experts' gradients are divided by the ranks that have them, and not by all whose tokens came;
    Adam hides it.
    """

    def scaled(self, unit: str, gradient: Flat) -> Flat:
        return times([gradient], self.layout.expert)[0] if unit.endswith(".experts") else gradient


@fault(
    "expert-replica-sum",
    FOUR,
    "gradient layers.1.experts.3.down rank 1",
    "facebookresearch/fairseq#4220",
)
class ExpertReplicaSum(Without):
    """Experts' gradients are not summed over the ranks that have the same experts."""

    axis = "expert shard replicas"


@fault(
    "experts-mixed", TWO, "gradient layers.1.experts.3.down rank 1", "deepspeedai/DeepSpeed#3521"
)
class ExpertsMixed(Program):
    """Experts' gradients are summed over all replicas, which have different experts."""

    def group(self, axis: str) -> tuple[int, ...]:
        return super().group("replicas" if axis == "expert shard replicas" else axis)


@fault("not-put-back", TWO, "forward layers.1 rank 0")
class NotPutBack(Program):
    """Rows return in the order of experts, and are taken for those that were sent."""

    def each_expert(self, tape: Tape, x: Node, whose: Sequence[int], of: str) -> Node:
        return super().each_expert(tape, x, sorted(whose), of)


@fault("gated-twice", TWO, "forward layers.1 rank 0")
class GatedTwice(Program):
    """The score weighs a token before its expert, and what comes back as well."""

    def combine(self, tape: Tape, scores: Node, made: Node, visits: Sequence[Visit]) -> Node:
        squared = tape.multiply(scores, scores)
        return super().combine(tape, squared, made, visits)


@fault("router-cut-off", TWO, "backward layers.0 rank 0", "NVIDIA-NeMo/Automodel#2995")
class RouterCutOff(Program):
    """Scores are gathered without a way back, and the router learns from the balance alone."""

    def combine(self, tape: Tape, scores: Node, made: Node, visits: Sequence[Visit]) -> Node:
        return super().combine(tape, Node(scores.rows), made, visits)


@fault("router-gradient", SPLIT, "gradient layers.1.router rank 0", "NVIDIA/Megatron-LM#599")
class RouterGradient(Program):
    """With sequence parallelism, the router's gradient is not summed over tensor ranks."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.name.endswith(".router") else super().summed_over(p)


@fault("experts-input-sum", TENSOR, "backward layers.0 rank 0", "pytorch/torchtitan#2387")
class ExpertsInputSum(Without):
    """The gradient of what experts got is not summed over the ranks that share an expert."""

    axis, ending = "expert tensor", ".experts, backward"


@fault("expert-sum", TENSOR, "forward layers.1 rank 0")
class ExpertSum(Without):
    """What ranks that share an expert make of a token is not summed."""

    axis, ending = "expert tensor", ".experts, forward"


@fault("dropped-tokens", TWO, "forward layers.1 rank 0")
class DroppedTokens(Program):
    """Experts have a capacity for each rank, and leave out what comes beyond."""

    def combine(self, tape: Tape, scores: Node, made: Node, visits: Sequence[Visit]) -> Node:
        room = len(visits) // self.network.experts
        late = [
            [e for e, _ in visits[:place]].count(e) >= room for place, (e, _) in enumerate(visits)
        ]
        kept = [
            row if not over else [0] * len(row) for row, over in zip(made.rows, late, strict=True)
        ]
        return super().combine(tape, scores, Node(kept), visits)


@fault("experts-in-turns", TWO, "forward layers.1 rank 0")
class ExpertsInTurns(Program):
    """Experts are loaded in turns over the ranks, and tokens sent as if they were in a row."""

    def initial(self, p: Parameter) -> Matrix:
        if p.expert is None:
            return super().initial(p)
        ranks, each = self.layout.expert, self.network.experts // self.layout.expert
        other = p.expert % each * ranks + p.expert // each
        name = p.name.replace(f".experts.{p.expert}.", f".experts.{other}.")
        return self.part(p).of(self.case.drawn.weights[name])


@fault("balance-of-own", TWO, "backward layers.0 rank 0", "pytorch/torchtitan#3000")
class BalanceOfOwn(Program):
    """A rank balances by the visits of its own tokens, which is another loss."""

    def count(self) -> Asks:
        yield from super().count()
        batches = range(self.layout.micro_batches)
        rows = [one for i in batches for one in self.rows(i, self.tokens())]
        own = [e for n, place in rows for e in self.case.drawn.chosen[n][place]]
        self.visits = [own.count(e) for e in range(self.network.experts)]


@fault("balance-by-tensor-ranks", SPLIT, "backward layers.0 rank 0", "NVIDIA/Megatron-LM#5047")
class BalanceByTensorRanks(Program):
    """The loss that balances experts counts once for each tensor rank."""

    def count(self) -> Asks:
        yield from super().count()
        self.visits = [n * self.layout.tensor for n in self.visits]


@fault("no-tokens", TWO, "stuck", "PaddlePaddle/PaddleFormers#3010")
class NoTokens(Program):
    """A rank whose experts got no token has nothing to send back, and does not say so."""

    def all_to_all(self, tape: Tape, x: Node, sizes: Sequence[int], what: str) -> Asks:
        found = yield from super().all_to_all(tape, x, sizes, what)
        if self.rank == 1:
            tape.ways.pop()
        return found


@fault("no-way-back", TWO, "backward layers.0 rank 0")
class NoWayBack(Program):
    """The all-to-all that sends tokens to their experts has no backward: they get no gradient."""

    def all_to_all(self, tape: Tape, x: Node, sizes: Sequence[int], what: str) -> Asks:
        found = yield from super().all_to_all(tape, x, sizes, what)
        if what.endswith("there"):
            tape.ways.pop()
        return found


@fault("other-batches", FOUR, "stuck", "NVIDIA/Model-Optimizer#1966")
class OtherBatches(Program):
    """A rank skips a batch that others of its expert-parallel group take."""

    def actions(self) -> Iterator[Action]:
        return iter([]) if self.rank == 3 else super().actions()
