"""Faults of sharded weights, gradients and optimizer states."""

from mathlib.layout import Layout
from mathlib.prover.faults import Without, fault
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.prover.shards import Flat
from mathlib.prover.tape import Node, Tape

ONE, TWO = (Layout(data=2, zero=stage, micro_batches=2) for stage in (1, 2))
THREE = Layout(data=2, zero=3)
HYBRID = Layout(data=4, zero=3, shard=2)


@fault("shard-boundary", ONE, "momenta embedding rank 1")
class ShardBoundary(Program):
    """A rank's shard of the states begins one number too early."""

    def own_shard(self, unit: str, numbers: Flat) -> Flat:
        own = self.shard_range(unit, len(numbers))
        shift = 1 if own.start else 0
        return [numbers[i - shift] if i - shift < len(numbers) else 0 for i in own]


@fault("no-padding", ONE, "gradient norm rank 0", "deepspeedai/DeepSpeed#202")
class NoPadding(Program):
    """Parameters that do not divide are cut with the size rounded down: the last get no update."""

    def shard_range(self, unit: str, size: int) -> range:
        each, place = size // self.shards, self.group("shard").index(self.rank)
        return range(each * place, each * (place + 1))

    def pieces(self, numbers: Flat, n: int) -> list[Flat]:
        each = len(numbers) // n
        return [numbers[r * each : (r + 1) * each] for r in range(n)]


@fault("stale-weights", ONE, "weights embedding rank 0", "lodestone-rock/RamTorch#13")
class StaleWeights(Program):
    """Nobody gathers the updated shards: a rank goes on with the others' old ones."""

    def renew(self, unit: str) -> Asks:
        whole = [x for p in self.inside[unit] for row in self.nodes[p.name].rows for x in row]
        own = self.shard_range(unit, len(whole))
        whole[own.start : own.stop] = self.weights[unit]
        self.noted["weights", unit, 0] = 0, whole
        yield from ()


@fault("shard-order", ONE, "gradient norm rank 0")
class ShardOrder(Program):
    """A rank reduces the shard of the next one."""

    def pieces(self, numbers: Flat, n: int) -> list[Flat]:
        found = super().pieces(numbers, n)
        return found[1:] + found[:1]


@fault("gather-shards-order", ONE, "weights embedding rank 0")
class GatherShardsOrder(Program):
    """Updated shards are put together with the rank's own first."""

    def gather_weights(self, unit: str) -> Asks:
        parts = yield from super().gather_weights(unit)
        mine = len(parts) - 1 - self.group(self.own_axis(unit, "shard")).index(self.rank)
        return parts[mine:] + parts[:mine]


@fault("last-shard-only", TWO, "gradient norm rank 0", "deepspeedai/DeepSpeed#1263")
class LastShardOnly(Program):
    """In stage 2, each micro-batch's shard of gradients replaces the one before."""

    def collect(self, unit: str, shard: Flat) -> None:
        self.gradients[unit] = shard


@fault("kept-gradients", TWO, "gradient norm rank 0")
class KeptGradients(Program):
    """In stage 2, gradients are not cleared when they have been reduced, and count again."""

    def reduce(self, units: list[str]) -> Asks:
        kept = {name: node.came_back for name, node in self.nodes.items()}
        yield from super().reduce(units)
        for name, node in self.nodes.items():
            node.gradient = kept[name]


class Detached(Program):
    """A program whose head uses weights that nobody knows of."""

    def loss(self, tape: Tape, x: Node, i: int) -> Asks:
        known = self.nodes["embedding"]
        self.nodes["embedding"] = Node(known.rows)
        y = yield from super().loss(tape, x, i)
        self.nodes["embedding"] = known
        return y


@fault("used-twice", TWO, "gradient embedding rank 0", "deepspeedai/DeepSpeed#8224")
class UsedTwice(Detached):
    """In stage 2, a weight that is used twice in a step is reduced with one use's gradient."""


@fault("external-parameter", THREE, "gradient embedding rank 0", "deepspeedai/DeepSpeed#930")
class ExternalParameter(Detached):
    """In stage 3, the head uses the embedding outside its module, and that gradient is lost."""


@fault("prefetched-too-early", THREE, "forward layers.1 rank 0", "deepspeedai/DeepSpeed#5059")
class PrefetchedTooEarly(Program):
    """In stage 3, a layer's weights are gathered into the buffer that still has another's."""

    def gather_weights(self, unit: str) -> Asks:
        parts = yield from super().gather_weights(unit)
        if unit == "layers.0":
            self.buffer = parts
        return self.buffer if unit == "layers.1" else parts


@fault("freed-too-early", THREE, "backward layers.1 rank 0")
class FreedTooEarly(Program):
    """In stage 3, weights are not gathered again for the backward pass."""

    def fill(self, chunk: int) -> Asks:
        self.filled = getattr(self, "filled", 0) + 1
        if self.filled == 1:
            yield from super().fill(chunk)


@fault("shard-replica-sum", HYBRID, "gradient norm rank 0")
class ShardReplicaSum(Without):
    """Shard groups do not sum their gradients with other shard groups (MiCS, hybrid sharding)."""

    axis = "shard replicas"


@fault("shard-groups-crossed", HYBRID, "gradient norm rank 0")
class ShardGroupsCrossed(Program):
    """The sum over copies of a shard is made in the shard group, over different shards."""

    def group(self, axis: str) -> tuple[int, ...]:
        return super().group("shard" if axis == "shard replicas" else axis)
