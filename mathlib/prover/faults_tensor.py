"""Faults of tensor and sequence parallelism."""

from typing import Any

from mathlib.layout import Layout
from mathlib.prover.faults import Without, fault
from mathlib.prover.modular import Matrix, inverse, times
from mathlib.prover.network import HEAD, WORDS, Parameter
from mathlib.prover.place import Part
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.prover.tape import Node, Tape

TWO = Layout(tensor=2)
SPLIT = Layout(tensor=2, sequence_parallel=True)
BOTH = Layout(data=2, tensor=2)


@fault("attention-sum", TWO, "forward layers.0 rank 0")
class AttentionSum(Without):
    """Attention's output is not summed over tensor ranks."""

    ending = ".out, forward"


@fault("mlp-sum", TWO, "forward layers.0 rank 0")
class MLPSum(Without):
    """The MLP's output is not summed over tensor ranks."""

    ending = ".down, forward"


@fault("attention-input-sum", TWO, "backward layers.0 rank 0", "pytorch/pytorch#157606")
class AttentionInputSum(Without):
    """The gradient of attention's input is not summed over tensor ranks."""

    axis, ending = "tensor", ".attention, backward"


@fault("mlp-input-sum", TWO, "backward layers.0 rank 0")
class MLPInputSum(Without):
    """The gradient of the MLP's input is not summed over tensor ranks."""

    ending = ".mlp, backward"


@fault("head-input-sum", TWO, "backward layers.1 rank 0", "NovaSky-AI/SkyRL#1886")
class HeadInputSum(Without):
    """The gradient of the head's input is not summed over tensor ranks."""

    ending = "head, backward"


@fault("embedding-sum", TWO, "forward embedding rank 0")
class EmbeddingSum(Without):
    """Embeddings of other ranks' words are not added."""

    ending = "embedding, forward"


@fault("word-mask", TWO, "forward embedding rank 0")
class WordMask(Program):
    """Words of other ranks are looked up as the rank's first one instead of as nothing."""

    def word_row(self, word: int) -> int | None:
        return super().word_row(word) or 0


@fault("last-words", TWO, "forward embedding rank 0", "NVIDIA/Megatron-LM#1754")
class LastWords(Program):
    """A vocabulary that does not divide is cut with V/t rounded down: nobody has the last words."""

    def own_words(self) -> range:
        each = WORDS // self.layout.tensor
        return range(each * self.at["tp"], each * (self.at["tp"] + 1))

    def part(self, p: Parameter) -> Part:
        found = super().part(p)
        return Part(list(self.own_words()), found.columns) if p.rows == WORDS else found


@fault("score-sum", TWO, "forward loss rank 0")
class ScoreSum(Program):
    """The loss takes the sum over its own words for that over all."""

    def sum_scores(self, pairs: Matrix) -> Asks:
        found = yield from super().sum_scores(pairs)
        return [[z, y] for (z, _), (_, y) in zip(pairs, found, strict=True)]


@fault("target-score", TWO, "forward loss rank 0")
class TargetScore(Program):
    """The score of the target is known only to the rank that has the word."""

    def sum_scores(self, pairs: Matrix) -> Asks:
        found = yield from super().sum_scores(pairs)
        return [[z, y] for (_, y), (z, _) in zip(pairs, found, strict=True)]


@fault(
    "bias-each-rank", TWO, "forward layers.0 rank 0", "huggingface/text-generation-inference#1036"
)
class BiasEachRank(Program):
    """Every tensor rank adds the bias before the sum, which has it t times."""

    def out(self, tape: Tape, y: Node, of: str) -> Asks:
        return (yield from self.leave(tape, tape.shift(y, self.nodes[f"{of}_bias"]), of))


@fault("bias-gradient", TWO, "gradient layers.1.down_bias rank 0", "pytorch/torchtitan#4332")
class BiasGradient(Program):
    """A bias is divided by t before the sum, and so is its gradient, which nobody sums."""

    def reduce(self, units: list[str]) -> Asks:
        for name, node in self.nodes.items():
            if name.endswith("_bias"):
                node.gradient = times(node.came_back, inverse(self.layout.tensor))
        yield from super().reduce(units)


@fault("norm-gradient", SPLIT, "gradient norm rank 0", "NVIDIA/Megatron-LM#1446")
class NormGradient(Program):
    """With sequence parallelism, norms' gradients are not summed over tensor ranks."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.name.rpartition(".")[2] in ("norm", "mlp_norm") else super().summed_over(p)


@fault("bias-split", SPLIT, "gradient layers.1.down_bias rank 0", "NVIDIA/Megatron-LM#236")
class BiasSplit(Program):
    """With sequence parallelism, biases' gradients are not summed over tensor ranks."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.name.endswith("_bias") else super().summed_over(p)


@fault("position-gradient", SPLIT, "gradient positions rank 0")
class PositionGradient(Program):
    """With sequence parallelism, positions' gradients are not summed: a rank has its tokens'."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.name == "positions" else super().summed_over(p)


@fault("query-key-norm", TWO, "gradient layers.1.key_norm rank 0", "NVIDIA-NeMo/RL#3716")
class QueryKeyNorm(Program):
    """Gradients of norms that all heads share are not summed over the ranks that have heads."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.name.endswith(("query_norm", "key_norm")) else super().summed_over(p)


@fault("norm-counted-twice", TWO, "gradient norm rank 0", "modelscope/mcore-bridge#101")
class NormCountedTwice(Program):
    """Norms' gradients are summed over tensor ranks, of which each has the whole already."""

    def summed_over(self, p: Parameter) -> list[str]:
        whole = p.name.rpartition(".")[2] in ("norm", "mlp_norm")
        return ["tensor"] if whole else super().summed_over(p)


@fault("key-value-copies", TWO, "gradient layers.1.value rank 0", "bigcode-project/Megatron-LM#37")
class KeyValueCopies(Program):
    """Ranks with a copy of the same key-value head keep their own share of its gradient."""

    def summed_over(self, p: Parameter) -> list[str]:
        return [] if p.cut == "key-value" else super().summed_over(p)


@fault("key-value-order", Layout(tensor=4), "forward layers.0 rank 0")
class KeyValueOrder(Program):
    """Copies of key-value heads are distributed in turns, and not to neighbours."""

    def part(self, p: Parameter) -> Part:
        found = super().part(p)
        if p.cut != "key-value":
            return found
        head = self.at["tp"] % self.network.kv_heads
        return Part([head * HEAD + i for i in range(HEAD)], found.columns)


def fused(program: Program, p: Parameter, names: tuple[str, ...]) -> Matrix:
    """The rank's rows of matrices that stand end to end and are cut as if they were one."""
    before, _, leaf = p.name.rpartition(".")
    whole = [row for name in names for row in program.case.drawn.weights[f"{before}.{name}"]]
    like = {q.name: q for q in program.network.parameters()}
    sizes = [len(program.part(like[f"{before}.{name}"]).rows) for name in names]
    start = sum(program.part(like[f"{before}.{name}"]).rows[0] for name in names)
    start += sum(sizes[: names.index(leaf)])
    return whole[start : start + sizes[names.index(leaf)]]


@fault("fused-query-key-value", Layout(tensor=3), "forward layers.0 rank 0", "awslabs/slapo#46")
class FusedQKV(Program):
    """Query, key and value end to end are cut as one matrix: a rank's keys are queries."""

    def initial(self, p: Parameter) -> Matrix:
        names = ("query", "key", "value")
        return fused(self, p, names) if p.name.endswith(names) else super().initial(p)


@fault("fused-gate-up", TWO, "forward layers.0 rank 0", "tenstorrent/tt-metal#52818")
class FusedGateUp(Program):
    """Gate and up end to end are cut as one matrix: the first rank has only gates."""

    def initial(self, p: Parameter) -> Matrix:
        names = ("gate", "up")
        return fused(self, p, names) if p.name.endswith(names) else super().initial(p)


@fault("norms-start-apart", TWO, "forward layers.0 rank 0")
class NormsStartApart(Program):
    """What all tensor ranks have alike starts from a seed of each rank's own."""

    def initial(self, p: Parameter) -> Matrix:
        found = super().initial(p)
        return times(found, 1 + self.at["tp"]) if p.name.endswith("norm") else found


@fault("gather-order", SPLIT, "forward layers.0 rank 0", "NVIDIA/TransformerEngine#530")
class GatherOrder(Program):
    """Tokens are gathered with the rank's own first, as a ring brings them."""

    def exchange(self, kind: str, axis: str, payload: Any, what: str) -> Asks:
        found = yield from super().exchange(kind, axis, payload, what)
        mine = self.at["tp"]
        ordered = kind != "all-gather" or axis != "tensor"
        return found if ordered else found[mine:] + found[:mine]


@fault("own-tokens-forward", SPLIT, "forward embedding rank 0")
class OwnTokensForward(Without):
    """With sequence parallelism, a rank takes its tokens' rows and does not sum the others'."""

    kind, axis, ending = "reduce-scatter", "tensor", "forward"


@fault("own-tokens-backward", SPLIT, "backward layers.1 rank 0", "pytorch/torchtitan#1805")
class OwnTokensBackward(Without):
    """With sequence parallelism, the gradient of gathered tokens is cut and not summed."""

    kind, axis, ending = "reduce-scatter", "tensor", "backward"


@fault("positions-split", SPLIT, "forward embedding rank 1")
class PositionsSplit(Program):
    """With sequence parallelism, every rank counts positions from 0."""

    def position(self, place: int) -> int:
        return self.stream_tokens().index(place)


@fault("tensor-batches", BOTH, "forward embedding rank 0", "huggingface/accelerate#3092")
class TensorBatches(Program):
    """Ranks that share a model's matrices take batches of their own, as replicas do."""

    def sequences(self, micro_batch: int) -> list[int]:
        n = self.layout.sequences
        return [(s + n // 2 * self.at["tp"]) % n for s in super().sequences(micro_batch)]


@fault("tensor-group-order", BOTH, "forward embedding rank 0")
class TensorGroupOrder(Program):
    """Weights are cut for neighbours, and groups made for ranks that are far apart."""

    def group(self, axis: str) -> tuple[int, ...]:
        if axis != "tensor":
            return super().group(axis)
        return tuple(range(self.rank % self.layout.data, self.case.dense.world, self.layout.data))
