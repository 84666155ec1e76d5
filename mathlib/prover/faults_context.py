"""Faults of context parallelism."""

from typing import Any

from mathlib.layout import Layout
from mathlib.prover.exchanges import Way
from mathlib.prover.faults import fault
from mathlib.prover.modular import zeros
from mathlib.prover.program import Program
from mathlib.prover.ranks import Asks
from mathlib.prover.tape import Node, Tape

TWO, THREE = Layout(context=2), Layout(context=3)
BOTH = Layout(data=2, context=2)


@fault("not-sent-home", TWO, "backward layers.0 rank 0")
class NotSentHome(Program):
    """Gradients of keys and values stay on the last rank that they come to."""

    def pass_home(self, held: Any, step: int, what: str) -> Asks:
        if step == self.ring_steps() - 1:
            return held
        return (yield from super().pass_home(held, step, what))


@fault("own-share-of-keys", TWO, "backward layers.0 rank 0", "NVIDIA/Megatron-LM#1464")
class OwnShareOfKeys(Program):
    """Gradients of keys and values do not travel: a rank keeps what its own queries give."""

    def pass_home(self, held: Any, step: int, what: str) -> Asks:
        k, v, dk, dv = held
        moved = yield from super().pass_home(held, step, what)
        if step == 0:
            self.own = dk, dv
        return (moved[0], moved[1], *self.own)


@fault("stale-keys", TWO, "backward layers.0 rank 0", "huggingface/diffusers#14265")
class StaleKeys(Program):
    """The backward pass takes the rank's own keys and values in every step of the ring."""

    def pass_home(self, held: Any, step: int, what: str) -> Asks:
        moved = yield from super().pass_home(held, step, what)
        return held[0], held[1], moved[2], moved[3]


@fault("context-sum", BOTH, "gradient norm rank 0", "NVIDIA/Megatron-LM#1464")
class ContextSum(Program):
    """Gradients are summed over replicas, and not over ranks that share their sequences."""

    def group(self, axis: str) -> tuple[int, ...]:
        found = super().group(axis)
        if axis != "shard replicas":
            return found
        return tuple(r for r in found if self.case.dense.coordinates(r)["cp"] == self.at["cp"])


@fault("one-step-short", THREE, "forward layers.0 rank 0")
class OneStepShort(Program):
    """The ring ends after N - 2 steps: a rank never meets the keys of its neighbour."""

    def ring_steps(self) -> int:
        return self.layout.context - 1

    def pass_home(self, held: Any, step: int, what: str) -> Asks:
        held = yield from super().pass_home(held, step, what)
        if step == self.ring_steps() - 1:
            held = yield from super().pass_home(held, step, what)
        return held


@fault("every-block-causal", TWO, "forward layers.0 rank 0")
class EveryBlockCausal(Program):
    """Each block of keys is masked like the rank's own, as if it began where the queries do."""

    def seen(self, source: int) -> list[int]:
        return super().seen(self.at["cp"])


@fault(
    "own-block-unmasked",
    TWO,
    "forward layers.0 rank 0",
    "ttsugriy/distributed-training-book, chapter 17",
)
class OwnBlockUnmasked(Program):
    """A rank's own block is not masked, and tokens see what comes after them."""

    def seen(self, source: int) -> list[int]:
        own = super().seen(source)
        return [len(own)] * len(own) if source == self.at["cp"] else own


@fault("future-blocks", TWO, "forward layers.0 rank 0", order="plain")
class FutureBlocks(Program):
    """Blocks that are all future are not left out."""

    def seen(self, source: int) -> list[int]:
        own = super().seen(source)
        return own if any(own) else [len(own)] * len(own)


@fault("ulysses-left-out", TWO, "forward layers.0 rank 1", "volcengine/verl#7476", order="ulysses")
class UlyssesLeftOut(Program):
    """Nobody swaps tokens for heads, without an error: tokens see only those of their rank."""

    def swap(self, tape: Tape, x: Node, there: Way, home: Way, what: str) -> Asks:
        yield from ()
        return x


@fault("ulysses-way-back", TWO, "backward layers.0 rank 0", order="ulysses")
class UlyssesWayBack(Program):
    """The all-to-all that swaps tokens for heads is left out backward: rows are of other tokens."""

    def exchange(self, kind: str, axis: str, payload: Any, what: str) -> Asks:
        mine = kind == "all-to-all" and axis == "context" and what.endswith("backward")
        return payload if mine else (yield from super().exchange(kind, axis, payload, what))


@fault("other-way-round", THREE, "forward layers.0 rank 1", order="plain")
class OtherWayRound(Program):
    """Keys come from one side, and are masked as if they came from the other."""

    def seen(self, source: int) -> list[int]:
        return super().seen((2 * self.at["cp"] - source) % self.layout.context)


@fault("positions-from-zero", TWO, "forward embedding rank 0", "vllm-project/speculators#871")
class PositionsFromZero(Program):
    """Every context rank counts positions from 0."""

    def position(self, place: int) -> int:
        return self.tokens().index(place)


@fault("plain-tokens", TWO, "forward embedding rank 0")
class PlainTokens(Program):
    """Tokens are distributed in a row, and masked as a zigzag."""

    def tokens(self) -> list[int]:
        own = self.network.tokens // self.layout.context
        return list(range(own * self.at["cp"], own * (self.at["cp"] + 1)))


@fault("shifted-after-split", TWO, "forward loss rank 0", "huggingface/transformers#36607")
class ShiftedAfterSplit(Program):
    """Targets are shifted on the rank: the last token of each piece has a wrong one."""

    def target(self, sequence: int, place: int) -> int:
        own = self.tokens()
        following = own[(own.index(place) + 1) % len(own)]
        return self.case.drawn.words[sequence][following]


@fault("context-count", TWO, "forward loss rank 0", "NVIDIA/Megatron-LM#906")
class ContextCount(Program):
    """A context rank divides by its own tokens that count, and ranks are summed."""

    def group(self, axis: str) -> tuple[int, ...]:
        found = super().group(axis)
        return (self.rank,) if axis == "replicas" and not hasattr(self, "counted") else found


@fault("counted-by-each", TWO, "forward loss rank 0", "PrimeIntellect-ai/prime-rl#2562")
class CountedByEach(Program):
    """Every context rank counts the whole sequence's tokens, and the counts are summed."""

    def count(self) -> Asks:
        yield from super().count()
        self.counted *= self.layout.context


@fault("queries-left-out", TWO, "backward layers.0 rank 0")
class QueriesLeftOut(Program):
    """Of the gradients of queries only the share of the rank's own keys is kept."""

    def _attend_back(self, dy: Any, q: Any, k: Any, v: Any, seen: Any) -> Any:
        dq, dk, dv = super()._attend_back(dy, q, k, v, seen)
        own = seen == self.seen(self.at["cp"])
        return dq if own else zeros(len(q), len(q[0])), dk, dv
