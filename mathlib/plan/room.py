"""Bytes on the fullest device of a layout, quickly: what a search asks of very many; and what a
program keeps, as far as it weighs.

L layers · p stages · v chunks a stage · m micro_batches · t tensor · V padded vocabulary
S ranks ZeRO shards over · P parameters · E of experts · n devices
The sum at the end of a forward, from the formulas of `mathlib.memory`, each asked once; exact,
moment by moment, is `memory.fit.training`, of which this is within a tenth.
"""

from functools import cached_property
from typing import Any, NamedTuple

from mathlib.checks import InputError, flag, non_negative, one_of, positive
from mathlib.layout import spreads, stage_sizes, uneven_layers
from mathlib.memory import activations, precision, states
from mathlib.memory.saved_tensors import Saving
from mathlib.plan import work
from mathlib.plan.work import HERE, Away, Held, Way, split
from mathlib.records import dataclass, field, replace
from mathlib.specs import Layout, Model, table

HELD = ("weights, gradients, optimizer states", "activations", "logits", "a layer at work")
CONVENTIONS = ("fused_gate", "expert_results", "selective")
ROUNDED = {"half": 0.0, "fp8": 1.0, "fp4": 0.5}  # bytes of a rounded input; 0: it is not
Copies = tuple[float, float]  # bytes of the states, and of a layer that ZeRO gathers


@dataclass(frozen=True)
class Keeps:
    """Conventions of a program, as far as they weigh."""

    recipe: str = "mixed-adam-fp32-gradients"  # copies of a parameter, a row of recipes.toml
    logit: float = 6  # bytes of a logit while the loss and its gradient are computed
    shared_logit: float = 0  # bytes more of a logit where tensor ranks share the vocabulary
    whole_logits: bool = False  # a tensor rank holds those of all V words, not a t-th
    fused_gate: bool = True  # a gate's matmul keeps three tensors instead of four
    norm: float = 0  # bytes that a norm keeps for each number besides its input
    rounded: bool = True  # layers keep their inputs in the 8 or 4 bits in which they multiply them
    expert_results: bool = False  # experts' results are kept, and weighted after the last matmul
    selective: tuple[str, ...] = ()  # what selective recomputation keeps; (): all but the core
    gathered: bool = False  # a stage of a pipeline holds weights and gradients that ZeRO shards
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        one_of("recipe", self.recipe, table("recipes"))
        positive("logit", self.logit)
        for name in ("norm", "shared_logit"):
            non_negative(name, getattr(self, name))
        for name in ("whole_logits", "fused_gate", "rounded", "expert_results", "gathered"):
            flag(name, getattr(self, name))
        if not isinstance(self.selective, tuple):
            raise InputError(f"selective = {self.selective!r}: expected a tuple of names")


def find_keeps(program: str = "megatron-core") -> Keeps:
    """What a program of calibrations.toml keeps; the usual where nobody read its code.

    Chapter: planning
    """
    one_of("program", program, table("calibrations")["programs"])
    rows = table("keeps")
    row = rows.get(program, rows["usual"])
    return Keeps(**row | {"selective": tuple(row.get("selective", ()))})


class Early(NamedTuple):
    """Layers of each kind of that stage which keeps most activations, and of the last, and the
    micro-batches in flight there.
    """

    here: tuple[int, ...]
    flying: float
    last: tuple[int, ...]
    behind: float

    @property
    def layers(self) -> int:
        """Of the stage that keeps most."""
        return sum(self.here)


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
    precision: str = "half"  # of the layers' matmuls
    kept: dict[tuple[object, ...], list[float]] = field(default_factory=dict, repr=False)
    copies: dict[tuple[int, int], tuple[float, float, float]] = field(
        default_factory=dict, repr=False
    )
    early: dict[tuple[object, ...], Early] = field(default_factory=dict, repr=False)
    held: dict[tuple[int, ...], list[Held]] = field(default_factory=dict, repr=False)
    spread: dict[tuple[int, int], dict[int, tuple[int, ...]]] = field(
        default_factory=dict, repr=False
    )
    of_stages: dict[tuple[int, ...], list[tuple[float, float]]] = field(
        default_factory=dict, repr=False
    )
    standing: dict[tuple[object, ...], list[Copies]] = field(default_factory=dict, repr=False)

    def parts(self, way: Layout | Way, away: Away = HERE) -> tuple[float, float, float, float]:
        """States, activations, logits and what is alive while a layer computes, in bytes, on the
        fuller of first and last stage; where the first has a layer fewer than the second, or some
        layers have experts and some do not, each on the stage that has most of it: up to a sixth
        too much where a table weighs more than a layer.
        """
        states_, gathered = self._standing(way, way.zero, way.shard, away)
        kept, logits, again = self.passing(way, away)
        return states_, kept, logits, again + gathered

    def passing(self, way: Layout | Way, away: Away = HERE) -> tuple[float, float, float]:
        """Activations, logits, a layer computed again: what no ZeRO stage changes. Of activations
        that wait in the host's memory those of two layers are here, one's in flight.
        """
        at, layers = self.stages(way), self._layers(way, way.recompute)
        again = max(self._layers(way, "none")) if way.recompute == "full" else 0.0
        n = self.tokens // way.context * way.micro_batch
        t = 1 if self.keeps.whole_logits else way.tensor
        each = self.keeps.logit + (self.keeps.shared_logit if t > 1 else 0)
        logits = (each * self.model.padded_vocab + 4 * self.model.width) * n / t
        if away.kept:
            return min(2.0, at.layers * at.flying) * max(layers), logits, again
        ahead, at_last = at.flying * _added(at.here, layers), at.behind * _added(at.last, layers)
        if way.pipeline == 1 or ahead < at_last + logits:
            return at_last, logits, again
        return ahead, 0.0, again

    def of_family(self, way: Way, shards: list[tuple[int, int]], away: Away = HERE) -> list[Copies]:
        """What stands in memory with each ZeRO stage and group of a family; asked once, as chunks
        change nothing where layers are alike.
        """
        chunks = way.chunks if len(self.kinds) > 1 else 1
        key = (*split(way), chunks, away.states, away.weights)
        if key not in self.standing:
            self.standing[key] = [self._standing(way, *one, away) for one in shards]
        return self.standing[key]

    def on_host(self, way: Layout | Way, shard: tuple[int, int], away: Away) -> float:
        """Bytes that wait in the host's memory for a device."""
        kept = self._kept_on_host(way, away)
        if not away.states:
            return kept
        every, left = (self._standing(way, *shard, one)[0] for one in (HERE, away))
        return every - left + kept

    def family_on_host(self, way: Way, shards: list[tuple[int, int]], away: Away) -> list[float]:
        """The same with each ZeRO stage and group of a family."""
        kept = self._kept_on_host(way, away)
        if not away.states:
            return [kept] * len(shards)
        families = self.of_family(way, shards), self.of_family(way, shards, away)
        return [every - left + kept for (every, _), (left, _) in zip(*families, strict=True)]

    def _kept_on_host(self, way: Layout | Way, away: Away) -> float:
        """Activations that wait there."""
        if not away.kept:
            return 0.0
        at = self.stages(way)
        return at.flying * _added(at.here, self._layers(way, way.recompute))

    @property
    def copied(self) -> str:
        """The recipe that counts."""
        return self.keeps.recipe if self.recipe is None else self.recipe

    def layer(self, way: Layout | Way) -> float:
        """Bytes that an average layer keeps of a micro-batch."""
        sparse = self.model.expert_layers
        counts = (
            (self.model.layers - sparse, sparse) if len(self.kinds) > 1 else (self.model.layers,)
        )
        return _added(counts, self._layers(way, way.recompute)) / self.model.layers

    def total(self, way: Layout | Way) -> float:
        """Bytes in all."""
        return sum(self.parts(way))

    @cached_property
    def kinds(self) -> list[Model]:
        """Models whose layers are all alike: without experts and with them where this one's differ,
        else itself.
        """
        e = self.model.experts
        if e is None or self.model.expert_layers in (0, self.model.layers):
            return [self.model]
        return [self.model.but(experts=x) for x in (None, replace(e, dense_layers=0, every=1))]

    def counts(self, way: Layout | Way) -> dict[int, tuple[int, ...]]:
        """Layers of each kind on the stages that may be the fullest: first, second and last where
        layers are alike, else all.
        """
        p, L, e = way.pipeline, self.model.layers, self.model.experts
        key = p, way.chunks
        if key not in self.spread:
            if e is None or len(self.kinds) == 1:
                first, most, last = stage_sizes(L, p)
                sizes = (
                    {0: first, 1: most, p - 1: last} if first < most else {0: first, p - 1: last}
                )
                self.spread[key] = {i: (n,) for i, n in sizes.items()}
            else:
                v = way.chunks if spreads(L, p, way.chunks) else 1
                own = [[e.at(i) for i in held] for held in uneven_layers(L, p, v)]
                self.spread[key] = {i: (len(one) - sum(one), sum(one)) for i, one in enumerate(own)}
        return self.spread[key]

    def stages(self, way: Layout | Way) -> Early:
        """Layers and micro-batches in flight of the stages that may be the fullest."""
        key: tuple[object, ...] = (way.pipeline, way.micro_batches, way.chunks)
        if len(self.kinds) > 1:
            key += (way.tensor, way.context, way.sequence_parallel, way.recompute)
        if key not in self.early:
            p, m, v = way.pipeline, way.micro_batches, way.chunks
            counts, each = self.counts(way), self._layers(way, way.recompute)
            flying = {
                i: activations.in_flight(pipeline=p, micro_batches=m, chunks=v, stage=i)
                for i in counts
            }
            most = max(counts, key=lambda i: flying[i] * _added(counts[i], each))
            self.early[key] = Early(counts[most], flying[most], counts[p - 1], flying[p - 1])
        return self.early[key]

    def _layers(self, way: Layout | Way, recompute: str) -> list[float]:
        """Bytes that a layer of each kind keeps of one micro-batch: as many times those of a
        sequence as it has.
        """
        key = (way.tensor, way.context, way.sequence_parallel, recompute)
        if key not in self.kept:
            names = ("tensor", "context", "sequence_parallel", "recompute")
            how: dict[str, Any] = dict(zip(names, key, strict=True), tokens=self.tokens)
            norms = self._norms(*key)
            each = [activations.kept_by(one, self._how, **how) for one in self.kinds]
            self.kept[key] = [one + norms for one in each]
        return [way.micro_batch * one for one in self.kept[key]]

    def _norms(self, tensor: int, context: int, split: bool, recompute: str) -> float:
        """Bytes that a layer's norms keep besides their inputs."""
        if recompute == "full" or (recompute == "selective" and self.keeps.selective):
            return 0.0
        numbers = self.tokens // context * self.model.width / (tensor if split else 1)
        return self.model.block_norms * self.keeps.norm * numbers

    @cached_property
    def _how(self) -> Saving:
        """What a layer keeps, by the conventions of the program."""
        named = {name: getattr(self.keeps, name) for name in CONVENTIONS}
        rounded = ROUNDED[self.precision] if self.keeps.rounded else 0.0
        return Saving(self.attention, self.dropout, rounded=rounded, **named)

    def _standing(self, way: Layout | Way, zero: int, shard: int, away: Away = HERE) -> Copies:
        """Bytes of weights and gradients, and of master weights and optimizer states where they
        stay; and of the whole layer, in stage 3, or where weights are away, weights and gradients,
        in stage 2 gradients.
        """
        S, N = shard if zero else 1, way.data * way.context
        own = N * way.tensor // (way.expert * way.expert_split)
        Se = max(1, own * S // N) if zero else 1
        which, whole = 2 if away.states else 0, self._copies(0, 1)[1]
        stay = self.keeps.gathered and way.pipeline > 1 and zero > 1 and shard != 1
        zero, more = (3, whole + 2) if stay else (zero, 0.0)
        dense, experts = (self._copies(zero, of)[which] + more for of in (S, Se))
        P, E = self.weights(way, dense, experts)
        states_ = P * dense + E * experts
        if not away.states:
            states_ += self._elsewhere * self._tables(way) / S
        if away.weights:
            return 0.0, self.largest(way) * (whole + 2)
        if zero < 2 or shard == 1 or stay:
            return states_, 0.0
        return states_, self.largest(way) * (whole + 2 if zero == 3 else whole)

    def weights(self, way: Layout | Way, dense: float, experts: float) -> tuple[float, float]:
        """Parameters of the stage with most bytes, where one takes `dense` and an expert's takes
        `experts`: those of experts apart.
        """
        found = self._of_stages(way)
        return max(found, key=lambda one: one[0] * dense + one[1] * experts)

    def _of_stages(self, way: Layout | Way) -> list[tuple[float, float]]:
        """Parameters of the stages that may be the fullest: those of experts apart."""
        key = (way.pipeline, way.chunks, way.tensor, way.expert, way.expert_split)
        if key not in self.of_stages:
            each, p, found = self._held(way), way.pipeline, list[tuple[float, float]]()
            for stage, counts in self.counts(way).items():
                tables = (stage == 0) + (stage == p - 1 and (p > 1 or not self.model.tied))
                P = _added(counts, [one.dense for one in each]) + tables * each[0].table
                found.append((P, _added(counts, [one.experts for one in each])))
            self.of_stages[key] = found
        return self.of_stages[key]

    @cached_property
    def _elsewhere(self) -> float:
        """Bytes more of a number in a table, where its moments are more than a matrix's."""
        wide = precision.recipe(self.copied).elsewhere
        return precision.bytes_of(wide) if wide else 0.0

    def _tables(self, way: Layout | Way) -> float:
        """Parameters of embedding and head on the stage that has most of them."""
        both = way.pipeline == 1 and not self.model.tied
        return (1 + both) * self._held(way)[0].table

    def largest(self, way: Layout | Way) -> float:
        """Parameters of the largest layer or table."""
        each = self._held(way)
        return max(each[0].table, *(one.dense + one.experts for one in each))

    def _held(self, way: Layout | Way) -> list[Held]:
        """Parameters of a layer of each kind, and of a table."""
        key = (way.tensor, way.expert, way.expert_split)
        if key not in self.held:
            t, ep, et = key
            self.held[key] = [work.held(one, t, one.layers, ep, et) for one in self.kinds]
        return self.held[key]

    def _copies(self, zero: int, shard: int) -> tuple[float, float, float]:
        """Bytes a parameter of all copies, of the gradient, and of it and the weight."""
        if (zero, shard) not in self.copies:
            each = states.per_parameter(self.copied, zero=zero, shard=shard)
            gradient = each.amount("gradients")
            both = each.amount("weights") + gradient
            self.copies[zero, shard] = each.total, gradient, both
        return self.copies[zero, shard]


def _added(counts: tuple[int, ...], each: list[float]) -> float:
    """As many of each as there are."""
    return sum(n * one for n, one in zip(counts, each, strict=True))
