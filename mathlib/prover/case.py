"""What is trained: a layout, a network and a schedule, and a batch with random weights.

m micro-batches · b sequences of one · dp replicas

Sequence n of micro-batch i of replica d is (d m + i) b + n of the batch.  A target's weight in the
mean is a random number, so that no two ranks divide by the same by chance; experts are chosen by
the data.
"""

from functools import cached_property
from random import Random
from typing import Any, NamedTuple

from mathlib.checks import InputError, flag, instance, one_of, whole
from mathlib.layout import Layout
from mathlib.prover.modular import PRIME, Matrix
from mathlib.prover.network import WORDS, Network, smallest
from mathlib.records import dataclass
from mathlib.schedule import orders, ring_order
from mathlib.schedule.actions import Schedule
from mathlib.traffic import mesh

ORDERS = (*ring_order.ORDERS, "ulysses")  # how context ranks share tokens, and with which exchange
FLUSHED = {name: make for name, make in orders.ORDERS.items() if name not in ("pipedream", "2bw")}
DENSE = {
    "tensor": ("tp",),
    "context": ("cp",),
    "replicas": ("cp", "dp"),
    "pipeline": ("pp",),
}
EXPERTS = {"expert": ("ep",), "expert tensor": ("tp",), "expert replicas": ("dp",)}


class Drawn(NamedTuple):
    """What is drawn at random."""

    weights: dict[str, Matrix]  # before the step
    momenta: dict[str, Matrix]  # the optimizer's state before it
    rates: list[int]  # of learning, of momentum, of the loss that balances experts
    words: list[list[int]]  # of each sequence, one more than tokens: the last is only a target
    counts: list[list[int]]  # what each target weighs in the mean, 0 where it does not count
    chosen: list[list[tuple[int, int]]]  # the two experts of each token


@dataclass(frozen=True)
class Case:
    """A layout with all that a training step needs."""

    layout: Layout
    schedule: Schedule
    network: Network
    order: str = "zigzag"  # one of ORDERS
    seed: int = 0

    @cached_property
    def dense(self) -> mesh.Mesh:
        return mesh.of_layout(self.layout)

    @cached_property
    def experts(self) -> mesh.Mesh:
        return mesh.of_layout(self.layout, experts=True)

    @cached_property
    def groups(self) -> dict[str, list[tuple[int, ...]]]:
        """Of every kind of group: that of each rank."""
        found = {}
        for grid, axes_of in ((self.dense, DENSE), (self.experts, EXPERTS)):
            for name, axes in axes_of.items():
                of: list[Any] = [None] * grid.world
                for group in grid.groups(*axes):
                    for rank in group:
                        of[rank] = tuple(group)
                found[name] = of
        return found

    @cached_property
    def holders(self) -> dict[str, list[int]]:
        """The stages that have each parameter: more than one where it is tied or a chunk is
        there twice.
        """
        stages = range(self.schedule.stages)
        has = {s: {u for c in self.schedule.chunks_of(s) for u in self.units(c)} for s in stages}
        return {
            p.name: [s for s in stages if p.unit.removesuffix(".experts") in has[s]]
            for p in self.network.parameters()
        }

    def units(self, chunk: int) -> list[str]:
        """The layers and the ends of the model that a chunk has."""
        last = self.schedule.model_chunks - 1
        found = ["embedding", "positions"] if chunk == 0 else []
        found += [f"layers.{n}" for n in self.schedule.layers_of(chunk, self.network.layers)]
        if chunk == last:
            found += ["norm", "embedding" if self.network.tied else "head"]
        return found

    @cached_property
    def drawn(self) -> "Drawn":
        """All numbers and words, in one order, so that one process draws the same."""
        random, net = Random(self.seed), self.network
        n, s = self.layout.sequences, net.tokens
        weights, momenta = (_matrices(random, net) for _ in range(2))
        rates = [random.randrange(1, PRIME) for _ in range(3)]
        row = [WORDS - 1, *_deck(random, WORDS, n * (s + 1))]  # the last is where cuts go wrong
        words = [row[i * (s + 1) : (i + 1) * (s + 1)] for i in range(n)]
        counts = [[random.randrange(1, PRIME) for _ in range(s)] for _ in range(n)]
        for of in counts:
            of[random.randrange(s - 1)] = 0  # a target that does not count
        return Drawn(weights, momenta, rates, words, counts, _choices(random, net.experts, n, s))

    def on_one(self) -> "Case":
        """The same training in one process: its micro-batches are those of all replicas."""
        lay = self.layout
        plain = Layout(micro_batch=lay.micro_batch, micro_batches=lay.data * lay.micro_batches)
        schedule = orders.make("gpipe", stages=1, micro_batches=plain.micro_batches)
        return Case(plain, schedule, self.network, self.order, self.seed)


def _matrices(random: Random, network: Network) -> dict[str, Matrix]:
    """A number for each of every parameter."""
    return {
        p.name: [[random.randrange(1, PRIME) for _ in range(p.columns)] for _ in range(p.rows)]
        for p in network.parameters()
    }


def _choices(random: Random, experts: int, n: int, s: int) -> list[list[tuple[int, int]]]:
    """Two experts of every token; unevenly visited."""
    if not experts:
        return []
    deck = _deck(random, experts, n * s)
    pairs = [(e, (e + random.randrange(1, experts)) % experts) for e in deck]
    return [pairs[i * s : (i + 1) * s] for i in range(n)]


def _deck(random: Random, kinds: int, n: int) -> list[int]:
    """n draws; every kind once before any comes twice."""
    found = list[int]()
    while len(found) < n:
        found += random.sample(range(kinds), kinds)
    return found[:n]


def case(
    layout: Layout,
    *,
    schedule: str = "",
    order: str = "zigzag",
    tied: bool = True,
    seed: int = 0,
) -> Case:
    """The smallest training that uses all of a layout.

    Schedule: an order of `mathlib.schedule.orders` with a flush; 1F1B, or interleaved where a stage
    has several chunks, if not given.
    """
    lay = instance("layout", layout, Layout)
    one_of("recompute", lay.recompute, ("none", "full"))
    made = _scheduled(lay, schedule or ("interleaved" if lay.chunks > 1 else "1f1b"))
    swaps = one_of("order", order, ORDERS) == "ulysses"
    network = smallest(lay, made.model_chunks, tied=flag("tied", tied), swap_heads=swaps)
    return Case(lay, made, network, order, whole("seed", seed, least=0))


def _scheduled(lay: Layout, name: str) -> Schedule:
    """The action lists of a layout's pipeline, refused where training would differ by design."""
    options: dict[str, Any] = {"stages": lay.pipeline, "micro_batches": lay.micro_batches}
    if name in ("interleaved", "breadth-first"):
        options["chunks"] = lay.chunks
    made = orders.make(name, **options)
    if made.weights != "flush":
        raise InputError(
            f"schedule = {name!r}: changes weights while micro-batches are in flight, so that "
            "training differs from one process by design; expected one with a flush"
        )
    held = max(len(made.chunks_of(s)) for s in range(made.stages))
    if lay.chunks > 1 and held != lay.chunks:
        raise InputError(
            f"chunks = {lay.chunks}: {name} has {held} a stage; leave it out, or expected "
            "schedule = 'interleaved' or 'breadth-first'"
        )
    return made
