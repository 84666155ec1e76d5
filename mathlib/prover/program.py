"""A rank's training step: the actions of its stage, then the update.

A chunk's output goes on at once, as a message that says which it is; a rank that has the next chunk
itself keeps it.
"""

from collections.abc import Iterator

from mathlib.prover.case import Case
from mathlib.prover.modular import PRIME, Matrix
from mathlib.prover.ranks import RECEIVE, SEND, Asks, Request
from mathlib.prover.shards import Shards
from mathlib.prover.tape import Node, Tape
from mathlib.schedule.actions import Action


class Program(Shards):
    """One rank's step."""

    def __init__(self, case: Case, rank: int):
        super().__init__(case, rank)
        self.tapes: dict[tuple[int, int], tuple[Tape, Node, Node]] = {}
        self.here: dict[tuple[str, int, int], Matrix] = {}  # between two chunks of this rank

    def run(self) -> Asks:
        """The whole step."""
        self.load()
        yield from self.count()
        for action in self.actions():
            yield from self.act(action)
        yield from self.finish()
        return self.noted

    def count(self) -> Asks:
        """What targets weigh and visits of experts, in the whole batch."""
        m, own = self.layout.micro_batches, self.tokens()
        rows = [one for i in range(m) for one in self.rows(i, own)]
        counts = [sum(self.case.drawn.counts[n][place] for n, place in rows) % PRIME]
        counts += [0] * self.network.experts
        if self.network.experts:
            for n, place in rows:
                for e in self.case.drawn.chosen[n][place]:
                    counts[1 + e] += 1
        found = yield from self.exchange("all-reduce", "replicas", [counts], "counts")
        self.counted, self.visits = found[0][0], found[0][1:]

    def actions(self) -> Iterator[Action]:
        """What this rank does, in order."""
        return iter(self.case.schedule.actions[self.stage])

    # actions

    def act(self, action: Action) -> Asks:
        """One action of the schedule."""
        kind, i, c = action
        if self.layout.zero == 3:
            yield from self.fill(c)
        if kind == "F":
            yield from self.forward(action)
        elif kind != "W":
            yield from self.backward(action)
        if kind in "BW":
            tape, *_ = self.tapes.pop((i, c))
            tape.weights()
            if self.layout.zero >= 2:
                yield from self.reduce(self.units_of(c))
        if self.layout.zero == 3:
            for unit in self.units_of(c):
                self.free(unit)

    def forward(self, action: Action) -> Asks:
        """A micro-batch through a chunk."""
        _, i, c = action
        tape, last = Tape(), self.case.schedule.model_chunks - 1
        if c == 0:
            x = Node([])
            y = yield from self.embed(tape, i)
        else:
            x = y = Node((yield from self.receive(action)))
        for unit in self.case.units(c):
            if unit.startswith("layers."):
                y = yield from self.kept(tape, y, unit, i)
        if c == last:
            y = yield from self.loss(tape, y, i)
        else:
            yield from self.send(action, y.rows)
        self.tapes[i, c] = tape, x, y

    def kept(self, tape: Tape, x: Node, unit: str, i: int) -> Asks:
        """A layer; where it is recomputed, nothing but its input is kept."""
        if self.layout.recompute == "none":
            return (yield from self.layer(tape, x, unit, i))
        y = yield from self.layer(Tape(), Node(x.rows), unit, i)

        def back(out: Node) -> Asks:
            again, start = Tape(), Node(x.rows)
            end = yield from self.layer(again, start, unit, i)
            end.gradient = out.came_back
            yield from again.backward()
            x.add(start.came_back)
            tape.later += again.later

        return tape.made(y.rows, back)

    def backward(self, action: Action) -> Asks:
        """Its gradient back through the chunk."""
        _, i, c = action
        tape, x, y = self.tapes[i, c]
        if c < self.case.schedule.model_chunks - 1:
            y.gradient = yield from self.receive(action)
        yield from tape.backward()
        if c > 0:
            yield from self.send(action, x.came_back)

    def receive(self, action: Action) -> Asks:
        """What comes from the chunk before, or as a gradient from the one behind."""
        source, tag = self.case.schedule.receives_from(action), self.tag(action, received=True)
        if source is None:
            return self.here.pop(tag)
        group = (self.of_stage(source), self.rank)
        return (yield Request(RECEIVE, group, None, said(tag)))

    def send(self, action: Action, rows: Matrix) -> Asks:
        """To the chunk behind, or back to the one before."""
        target, tag = self.case.schedule.sends_to(action), self.tag(action, received=False)
        if target is None:
            self.here[tag] = rows
        else:
            yield Request(SEND, (self.rank, self.of_stage(target)), rows, said(tag))

    def tag(self, action: Action, *, received: bool) -> tuple[str, int, int]:
        """What a message is: of which micro-batch, between which chunk and the next."""
        kind, i, c = action
        if kind == "F":
            return "activations", i, c - 1 if received else c
        return "gradient", i, c if received else c - 1

    def of_stage(self, stage: int) -> int:
        """The rank of another stage that has this one's tokens."""
        return self.case.dense.rank(**self.at | {"pp": stage})

    # what is compared

    def watched(self, name: str, micro_batch: int, rows: Matrix) -> None:
        """A tensor of a micro-batch."""
        kind = "backward" if name.startswith("gradient of ") else "forward"
        self.noted[kind, name.removeprefix("gradient of "), micro_batch] = rows


def said(tag: tuple[str, int, int]) -> str:
    """A message, for people."""
    what, i, c = tag
    return f"{what} of micro-batch {i} between chunks {c} and {c + 1}"
