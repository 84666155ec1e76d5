"""Whether the ranks of a layout train what one process trains: equal or not, exactly.

All weights, momenta and rates are random numbers modulo P = 2^127 - 1, and every step of training
is a polynomial in them.  If a layout computes another polynomial in any tensor, the two agree at a
random point with probability degree / P at most (Schwartz 1980, Zippel 1979).  The degree counts
the sums by which losses are divided as well, one for each micro-batch of a rank at most.
No rounding, so no tolerance: one number that differs is a fault.  All that a step leaves to the
next is compared, so that one step is enough.  What is drawn and is no number, words and experts of
a token, is one example: a fault that needs others is not seen.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mathlib.prover.case import Case
from mathlib.prover.modular import PRIME, Matrix
from mathlib.prover.network import Parameter
from mathlib.prover.place import Place
from mathlib.prover.program import Program
from mathlib.prover.ranks import Ranks, Stuck
from mathlib.prover.shards import KINDS, flat

Seen = dict[tuple[str, str, int], Any]


class Difference(NamedTuple):
    """A number that a rank has and one process has not."""

    kind: str  # one of KINDS
    tensor: str
    micro_batch: int | None  # None: of the whole batch
    rank: int
    row: int
    column: int

    def __str__(self) -> str:
        before = {"gradient": "gradient of ", "backward": "gradient of the stream behind "}
        of = before.get(self.kind, "") + self.tensor
        after = {"weights": ", updated", "momenta": ", momentum"}.get(self.kind, "")
        when = "" if self.micro_batch is None else f" in micro-batch {self.micro_batch}"
        place = f"rank {self.rank}, row {self.row}, column {self.column}"
        return f"{of}{after}{when} ({place})"


class Verdict(NamedTuple):
    """What became of a layout."""

    differences: list[Difference]  # one for each tensor of a rank, first to last
    stuck: str  # who waits for whom, where ranks do
    ranks: int
    tensors: int  # compared, of all ranks
    numbers: int
    chance: float  # that a wrong layout looks right: degree / P

    @property
    def equal(self) -> bool:
        return not self.differences and not self.stuck

    @property
    def first(self) -> Difference | None:
        return self.differences[0] if self.differences else None


def prove(case: Case, program: type[Program] = Program) -> Verdict:
    """One step on all ranks of a layout beside one process."""
    ranks = range(case.dense.world)
    chance = (case.network.degree + len(ranks) * case.layout.micro_batches) / PRIME
    try:
        seen = Ranks({r: program(case, r).run() for r in ranks}).run()
    except Stuck as stuck:
        return Verdict([], str(stuck), len(ranks), 0, 0, chance)
    one = Whole(case)
    differences, tensors, numbers = list[Difference](), 0, 0
    for rank in ranks:
        for wanted in one.wanted(rank):
            tensors, numbers = tensors + 1, numbers + len(flat([wanted.rows]))
            if found := _compared(wanted, seen[rank].get(wanted.key), rank):
                differences.append(found)
    order = one.order()
    differences.sort(key=lambda d: (order[d[:2]], d.micro_batch or 0, d.rank))
    return Verdict(differences, "", len(ranks), tensors, numbers, chance)


class Wanted(NamedTuple):
    """What a rank must have: rows of one process's tensor, or of a parameter what it holds."""

    key: tuple[str, str, int]  # where the rank noted it
    kind: str
    tensor: str
    rows: Matrix
    start: int  # of a unit's numbers, the first of these rows
    only: range  # and those that the rank has


def _compared(wanted: Wanted, there: Any, rank: int) -> Difference | None:
    """The first number that differs; all do where the rank noted nothing."""
    kind, tensor, micro_batch = wanted.kind, wanted.tensor, wanted.key[2]
    if not wanted.only:
        if there == wanted.rows:
            return None
        for r, row in enumerate(wanted.rows):
            for c, x in enumerate(row):
                if not there or r >= len(there) or there[r][c : c + 1] != [x]:
                    return Difference(kind, tensor, micro_batch, rank, r, c)
        return Difference(kind, tensor, micro_batch, rank, len(wanted.rows), 0)
    begin, numbers = there or (0, [])
    wide = len(wanted.rows[0])
    for n, x in enumerate(flat([wanted.rows]), wanted.start):
        at = n - begin
        if n in wanted.only and not (0 <= at < len(numbers) and numbers[at] == x):
            place = divmod(n - wanted.start, wide)
            return Difference(kind, tensor, None, rank, *place)
    return None


class Whole:
    """The step of one process, and what each rank must have of it."""

    def __init__(self, case: Case):
        self.case, one = case, case.on_one()
        self.seen: Seen = Ranks({0: Program(one, 0).run()}).run()[0]
        place = Place(one, 0)
        self.parameters = {kind: self._matrices(place, kind) for kind in KINDS[2:]}

    def _matrices(self, place: Place, kind: str) -> dict[str, Matrix]:
        found = {}
        for unit, inside in place.units().items():
            numbers = iter(self.seen[kind, unit, 0][1])
            for p in inside:
                found[p.name] = [[next(numbers) for _ in range(p.columns)] for _ in range(p.rows)]
        return found

    def order(self) -> dict[tuple[str, str], int]:
        """When a tensor is there: streams, the loss, their gradients, those of weights, updates."""
        streams = ["embedding", *(f"layers.{n}" for n in range(self.case.network.layers))]
        names = [p.name for p in self.case.network.parameters()]
        found = [("forward", name) for name in [*streams, "loss"]]
        found += [("backward", name) for name in reversed(streams)]
        found += [("gradient", name) for name in reversed(names)]
        found += [(kind, name) for kind in KINDS[3:] for name in names]
        return {one: place for place, one in enumerate(found)}

    def wanted(self, rank: int) -> Iterator[Wanted]:
        """All that a rank is to have noted."""
        place = Place(self.case, rank)
        for kind, i, c in self.case.schedule.actions[place.stage]:
            if kind == "F":
                yield from self._streams(place, i, c)
        for unit, inside in place.units().items():
            yield from self._unit(place, unit, inside)

    def _streams(self, place: Place, i: int, c: int) -> Iterator[Wanted]:
        case, last = self.case, self.case.schedule.model_chunks - 1
        names = ["embedding"] if c == 0 else []
        names += [unit for unit in case.units(c) if unit.startswith("layers.")]
        for name in names:
            for kind in KINDS[:2]:
                rows = self._rows(place, kind, name, i, place.stream_tokens())
                yield Wanted((kind, name, i), kind, name, rows, 0, range(0))
        if c == last:
            rows = self._rows(place, "forward", "loss", i, place.tokens())
            yield Wanted(("forward", "loss", i), "forward", "loss", rows, 0, range(0))

    def _rows(self, place: Place, kind: str, name: str, i: int, tokens: list[int]) -> Matrix:
        b = self.case.layout.micro_batch
        return [self.seen[kind, name, n // b][t * b + n % b] for n, t in place.rows(i, tokens)]

    def _unit(self, place: Place, unit: str, inside: list[Parameter]) -> Iterator[Wanted]:
        """Gradients and momenta of a rank's shard; weights of the whole unit, but in stage 3."""
        for kind in KINDS[2:]:
            parts = {p.name: place.part(p).of(self.parameters[kind][p.name]) for p in inside}
            size = len(flat(list(parts.values())))
            own = place.shard_range(unit, size)
            if kind == "weights" and self.case.layout.zero < 3:
                own = range(size)
            start = 0
            for name, rows in parts.items():
                end = start + len(flat([rows]))
                only = range(max(start, own.start), min(end, own.stop))
                if only:
                    yield Wanted((kind, unit, 0), kind, name, rows, start, only)
                start = end
