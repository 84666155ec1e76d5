"""Bytes on the fullest device of a layout, quickly: what a search asks of very many.

L layers · p stages · v chunks a stage · m micro_batches · t tensor
S ranks ZeRO shards over · P parameters · n devices
The sum at the end of a forward, from the formulas of `mathlib.memory`, each asked once; exact,
moment by moment, is `memory.fit.training`, of which this is within a tenth.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mathlib.layout import stage_sizes
from mathlib.memory import activations, states
from mathlib.plan import work
from mathlib.plan.keeps import Keeps
from mathlib.plan.work import HERE, Away, Held, Way
from mathlib.specs import Layout, Model

HELD = ("weights, gradients, optimizer states", "activations", "logits", "a layer at work")
Copies = tuple[float, float]  # bytes of the states, and of a layer that ZeRO gathers


class Early(NamedTuple):
    """Layers of the early stages and of the last, and the micro-batches in flight there."""

    first: int  # layers of the first stage, which has the embedding
    most: int  # of the second, where the first has one fewer
    layers: int  # of that of the two which keeps more activations
    flying: float  # micro-batches in flight there
    last: int  # layers of the last stage
    behind: float  # micro-batches in flight there


@dataclass(frozen=True, eq=False)
class Room:
    """Memory of a model's layouts: length of a sequence, recipe, what the program keeps, and what
    was asked before.
    """

    model: Model
    tokens: int
    recipe: str | None = None  # None: the program's
    keeps: Keeps = Keeps()
    attention: str = "flash"  # the kernel, one of architecture.ATTENTION
    dropout: bool = False  # whether its masks are kept
    kept: dict[tuple[object, ...], float] = field(default_factory=dict, repr=False)
    copies: dict[tuple[int, int], tuple[float, float, float]] = field(
        default_factory=dict, repr=False
    )
    early: dict[tuple[int, ...], Early] = field(default_factory=dict, repr=False)
    held: dict[tuple[int, ...], Held] = field(default_factory=dict, repr=False)
    standing: dict[tuple[object, ...], list[Copies]] = field(default_factory=dict, repr=False)

    def parts(self, way: Layout | Way, away: Away = HERE) -> tuple[float, float, float, float]:
        """States, activations, logits and what is alive while a layer computes, in bytes, on the
        fuller of first and last stage; where the first has a layer fewer than the second, each the
        more of those two: up to a sixth too much where a table weighs more than a layer.
        """
        states_, gathered = self._standing(way, way.zero, way.shard, away)
        kept, logits, again = self.passing(way, away)
        return states_, kept, logits, again + gathered

    def passing(self, way: Layout | Way, away: Away = HERE) -> tuple[float, float, float]:
        """Activations, logits, a layer computed again: what no ZeRO stage changes. Of activations
        that wait in the host's memory those of two layers are here, one's on their way.
        """
        _, _, layers, flying, last, behind = self.stages(way)
        layer = self._layer(way, way.recompute)
        again = self._layer(way, "none") if way.recompute == "full" else 0.0
        n = self.tokens // way.context * way.micro_batch
        logits = (self.keeps.logit * self.model.padded_vocab + 4 * self.model.width) * n
        logits /= 1 if self.keeps.whole_logits else way.tensor
        if away.kept:
            return min(2.0, layers * flying) * layer, logits, again
        ahead, at_last = layers * flying * layer, last * behind * layer
        if way.pipeline == 1 or ahead < at_last + logits:
            return at_last, logits, again
        return ahead, 0.0, again

    def of_family(self, way: Way, shards: list[tuple[int, int]], away: Away = HERE) -> list[Copies]:
        """What stands in memory with each ZeRO stage and group of a family; asked once, as chunks
        change nothing.
        """
        key = (*way[:3], *way[10:], away.states)
        if key not in self.standing:
            self.standing[key] = [self._standing(way, *one, away) for one in shards]
        return self.standing[key]

    def on_host(self, way: Layout | Way, shard: tuple[int, int], away: Away) -> float:
        """Bytes that wait in the host's memory for a device."""
        states_, kept = 0.0, 0.0
        if away.states:
            every, left = (self._standing(way, *shard, one)[0] for one in (HERE, away))
            states_ = every - left
        if away.kept:
            at = self.stages(way)
            kept = at.layers * at.flying * self._layer(way, way.recompute)
        return states_ + kept

    def layer(self, way: Layout | Way) -> float:
        """Bytes that an average layer keeps of a micro-batch."""
        return self._layer(way, way.recompute)

    def total(self, way: Layout | Way) -> float:
        """Bytes in all."""
        return sum(self.parts(way))

    def stages(self, way: Layout | Way) -> Early:
        """Layers and micro-batches in flight of the stages that may be the fullest."""
        key = (way.pipeline, way.micro_batches, way.chunks)
        if key not in self.early:
            p, m, v = key
            first, most, last = stage_sizes(self.model.layers, p)
            flying = [
                activations.in_flight(pipeline=p, micro_batches=m, chunks=v, stage=i)
                for i in (0, min(1, p - 1), p - 1)
            ]
            two = [(first, flying[0]), (most, flying[1])][: 1 if first == most else 2]
            here = max(two, key=lambda one: one[0] * one[1])
            self.early[key] = Early(first, most, *here, last, flying[2])
        return self.early[key]

    def _layer(self, way: Layout | Way, recompute: str) -> float:
        """Bytes that an average layer keeps of one micro-batch: as many times those of a sequence
        as it has.
        """
        key = (way.tensor, way.context, way.sequence_parallel, recompute)
        if key not in self.kept:
            names = ("tensor", "context", "sequence_parallel", "recompute")
            how: dict[str, Any] = dict(zip(names, key, strict=True))
            ends = [
                activations.layer(self.model, **self._how, index=i, **how).total
                for i in (0, self.model.layers - 1)
            ]
            sparse = self.model.expert_layers / self.model.layers
            self.kept[key] = sparse * ends[-1] + (1 - sparse) * ends[0] + self._norms(*key)
        return way.micro_batch * self.kept[key]

    def _norms(self, tensor: int, context: int, split: bool, recompute: str) -> float:
        """Bytes that a layer's norms keep besides their inputs."""
        if recompute == "full":
            return 0.0
        numbers = self.tokens // context * self.model.width / (tensor if split else 1)
        return self.model.block_norms * self.keeps.norm * numbers

    @property
    def _how(self) -> dict[str, Any]:
        how = {"attention": self.attention, "dropout": self.dropout}
        return {"tokens": self.tokens, "fused_gate": self.keeps.fused_gate} | how

    def _standing(self, way: Layout | Way, zero: int, shard: int, away: Away = HERE) -> Copies:
        """Bytes of weights and gradients, and of master weights and optimizer states where they
        stay; and of the whole layer, in stage 3 weights and gradients, in stage 2 gradients.
        """
        has, S = self._held(way), shard if zero else 1
        p, L, N = way.pipeline, self.model.layers, way.data * way.context
        own = N * way.tensor // (way.expert * way.expert_split)
        Se = max(1, own * S // N) if zero else 1
        which = 2 if away.states else 0
        dense, experts = self._copies(zero, S)[which], self._copies(zero, Se)[which]
        tables = has.table * (2 if p == 1 and not self.model.tied else 1)
        first, most, _ = stage_sizes(L, p)
        each = (has.dense * dense + has.experts * experts) * p / L  # bytes of a layer
        states_ = max(first * each + tables * dense, most * each)
        if zero < 2 or shard == 1:
            return states_, 0.0
        whole = self._copies(0, 1)[1]
        largest = max((has.dense + has.experts) * p / L, has.table)
        return states_, largest * (whole + 2 if zero == 3 else whole)

    def _held(self, way: Layout | Way) -> Held:
        key = (way.tensor, way.pipeline, way.expert, way.expert_split)
        if key not in self.held:
            self.held[key] = work.held(self.model, *key)
        return self.held[key]

    def _copies(self, zero: int, shard: int) -> tuple[float, float, float]:
        """Bytes a parameter of all copies, of the gradient, and of it and the weight."""
        if (zero, shard) not in self.copies:
            recipe = self.keeps.recipe if self.recipe is None else self.recipe
            each = states.per_parameter(recipe, zero=zero, shard=shard)
            gradient = each.amount("gradients")
            both = each.amount("weights") + gradient
            self.copies[zero, shard] = each.total, gradient, both
        return self.copies[zero, shard]
