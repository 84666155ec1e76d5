"""Gradients, optimizer states and weights of a rank: summed, sharded, updated, gathered.

A unit (a layer, a layer's experts, an end of the model) is flattened, cut into as many shards as
ZeRO has, and reduced in one go: stage 1 after all micro-batches, 2 and 3 after each, and in stage 3
its weights are gathered for each action.  Without ZeRO a unit is one shard, and every replica has
it.  Losses are divided by what the targets of the whole batch weigh, so that gradients only add up.
"""

from typing import Any

from mathlib.prover.case import Case
from mathlib.prover.layers import Layers
from mathlib.prover.modular import Matrix, plus, times
from mathlib.prover.network import Parameter
from mathlib.prover.ranks import Asks, Request
from mathlib.prover.tape import Node

Key = tuple[str, str, int]  # one of KINDS; of what; which micro-batch
KINDS = ("forward", "backward", "gradient", "momenta", "weights")  # in the order of training
Flat = list[int]


class Shards(Layers):
    """A rank that has parameters; `noted` is what the comparison looks at."""

    def __init__(self, case: Case, rank: int):
        super().__init__(case, rank)
        self.noted: dict[Key, Any] = {}
        self.gradients: dict[str, Flat] = {}  # of each unit, this rank's shard

    # what a rank starts with

    def load(self) -> None:
        """Its part of the weights, and its shards of weights and momenta."""
        weights = {p.name: self.initial(p) for p in self.parameters()}
        self.nodes = {name: Node(rows) for name, rows in weights.items()}
        self.weights, self.momenta = dict[str, Flat](), dict[str, Flat]()
        self.inside = self.units()
        for unit, inside in self.inside.items():
            momenta = [self.part(p).of(self.case.drawn.momenta[p.name]) for p in inside]
            self.weights[unit] = self.own_shard(unit, flat([weights[p.name] for p in inside]))
            self.momenta[unit] = self.own_shard(unit, flat(momenta))
            if self.layout.zero == 3:
                self.free(unit)

    def initial(self, p: Parameter) -> Matrix:
        """A parameter before the step."""
        return self.part(p).of(self.case.drawn.weights[p.name])

    def own_shard(self, unit: str, numbers: Flat) -> Flat:
        """This rank's; the last one is filled up with zeros."""
        own = self.shard_range(unit, len(numbers))
        return [numbers[i] if i < len(numbers) else 0 for i in own]

    # gradients and weights

    def units_of(self, chunk: int) -> list[str]:
        """The units of a chunk, with the experts of its layers."""
        found = [one for unit in self.case.units(chunk) for one in (unit, f"{unit}.experts")]
        return [unit for unit in found if unit in self.weights]

    def own_axis(self, unit: str, name: str) -> str:
        """Experts have groups of their own."""
        return f"expert {name}" if unit.endswith(".experts") else name

    def reduce(self, units: list[str]) -> Asks:
        """Sums over tensor ranks where each has a share, then to every rank its shard."""
        for unit in units:
            inside = self.inside[unit]
            for p in inside:
                for axis in self.summed_over(p):
                    node, what = self.nodes[p.name], f"gradient of {p.name}"
                    node.gradient = yield from self.exchange(
                        "all-reduce", axis, node.came_back, what
                    )
            whole = self.scaled(unit, flat([self.nodes[p.name].came_back for p in inside]))
            for p in inside:
                self.nodes[p.name].gradient = []
            axis = self.own_axis(unit, "shard")
            pieces = [[one] for one in self.pieces(whole, len(self.group(axis)))]
            mine = yield from self.exchange("reduce-scatter", axis, pieces, f"gradient of {unit}")
            self.collect(unit, mine[0])

    def scaled(self, unit: str, gradient: Flat) -> Flat:
        """Nothing to divide by: losses are."""
        return gradient

    def pieces(self, numbers: Flat, n: int) -> list[Flat]:
        """n shards of a unit, the last filled up."""
        each = -(-len(numbers) // n)
        full = numbers + [0] * (each * n - len(numbers))
        return [full[r * each : (r + 1) * each] for r in range(n)]

    def collect(self, unit: str, shard: Flat) -> None:
        """Add a shard of gradients to what micro-batches before have left."""
        there = self.gradients.get(unit)
        self.gradients[unit] = plus([there], [shard])[0] if there else shard

    def finish(self) -> Asks:
        """What is left of the sums, and the update."""
        if self.layout.zero < 2:
            yield from self.reduce(list(self.weights))
        for unit in self.weights:
            yield from self.sum_copies(unit)
        for unit, gradient in self.gradients.items():
            self.note("gradient", unit, gradient)
            self.update(unit, gradient)
            self.note("momenta", unit, self.momenta[unit])
            if self.layout.zero < 3:
                yield from self.renew(unit)
            else:
                self.note("weights", unit, self.weights[unit])

    def sum_copies(self, unit: str) -> Asks:
        """Over all that have the shard: other replicas, and stages with the same parameters."""
        shard = [self.gradients[unit]]
        axis = self.own_axis(unit, "shard replicas")
        shard = yield from self.exchange("all-reduce", axis, shard, f"gradient of {unit}")
        others = self.copies(self.inside[unit][0].name)
        if len(others) > 1:
            what = f"gradient of {unit}, over stages"
            shard = yield Request("all-reduce", others, shard, what)
        self.gradients[unit] = shard[0]

    def update(self, unit: str, gradient: Flat) -> None:
        """SGD with momentum."""
        rate, momentum, _ = self.case.drawn.rates
        self.momenta[unit] = plus(times([self.momenta[unit]], momentum), [gradient])[0]
        step = times([self.momenta[unit]], -rate)
        self.weights[unit] = plus([self.weights[unit]], step)[0]

    def renew(self, unit: str) -> Asks:
        """All shards of the new weights."""
        parts = yield from self.gather_weights(unit)
        self.noted["weights", unit, 0] = 0, [x for part in parts for x in part]

    def gather_weights(self, unit: str) -> Asks:
        axis = self.own_axis(unit, "shard")
        return (
            yield from self.exchange("all-gather", axis, self.weights[unit], f"weights of {unit}")
        )

    def fill(self, chunk: int) -> Asks:
        """Gather a chunk's weights for an action."""
        for unit in self.units_of(chunk):
            parts = yield from self.gather_weights(unit)
            numbers = iter([x for part in parts for x in part])
            for p in self.inside[unit]:
                rows = self.nodes[p.name].rows
                self.nodes[p.name].rows = [[next(numbers) for _ in row] for row in rows]

    def free(self, unit: str) -> None:
        """Let a unit's gathered weights go; zeros stand for them."""
        for p in self.inside[unit]:
            node = self.nodes[p.name]
            node.rows = [[0] * len(row) for row in node.rows]

    def note(self, kind: str, unit: str, shard: Flat) -> None:
        """A unit's shard, and where it begins."""
        size = len(flat([self.nodes[p.name].rows for p in self.inside[unit]]))
        self.noted[kind, unit, 0] = self.shard_range(unit, size).start, shard


def flat(matrices: list[Matrix]) -> Flat:
    """All numbers in a row."""
    return [x for matrix in matrices for row in matrix for x in row]
