"""Operations in which ranks exchange something, named by what they do forward and backward.

N ranks of the group · r a rank's place in it
An operation is called with a name, for people; its request says what it does and among whom.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mathlib.prover.modular import Matrix, matmul, matmul_rows, plus, split, transposed, zeros
from mathlib.prover.network import HEAD
from mathlib.prover.place import Place
from mathlib.prover.ranks import Asks, Request, alone
from mathlib.prover.tape import Node, Tape
from mathlib.schedule import ring_order

Way = Callable[[Matrix, str], Asks]


class Exchanges(Place):
    """A rank that asks others."""

    def exchange(self, kind: str, axis: str, payload: Any, what: str) -> Asks:
        """A collective of this rank's group; among one, nothing is asked."""
        group = self.group(axis)
        if len(group) == 1:
            return alone(kind, payload)
        return (yield Request(kind, group, payload, what))

    def sum_forward(self, tape: Tape, x: Node, axis: str, what: str) -> Asks:
        """All-reduce forward, identity backward."""
        rows = yield from self.exchange("all-reduce", axis, x.rows, f"{what}, forward")
        return tape.made(rows, lambda y: x.add(y.came_back))

    def sum_backward(self, tape: Tape, x: Node, axis: str, what: str) -> Asks:
        """Identity forward, all-reduce backward."""

        def back(y: Node) -> Asks:
            dy = yield from self.exchange("all-reduce", axis, y.came_back, f"{what}, backward")
            x.add(dy)

        yield from ()
        return tape.made(x.rows, back)

    def gather(self, tape: Tape, x: Node, axis: str, what: str) -> Asks:
        """All-gather of rows forward, reduce-scatter backward; also how many came from whom."""
        parts = yield from self.exchange("all-gather", axis, x.rows, f"{what}, forward")
        sizes = [len(part) for part in parts]

        def back(y: Node) -> Asks:
            pieces = cut(y.came_back, sizes)
            dx = yield from self.exchange("reduce-scatter", axis, pieces, f"{what}, backward")
            x.add(dx)

        return tape.made([row for part in parts for row in part], back), sizes

    def scatter(self, tape: Tape, x: Node, axis: str, sizes: Sequence[int], what: str) -> Asks:
        """Reduce-scatter of rows forward, all-gather backward."""
        pieces = cut(x.rows, sizes)
        rows = yield from self.exchange("reduce-scatter", axis, pieces, f"{what}, forward")

        def back(y: Node) -> Asks:
            parts = yield from self.exchange("all-gather", axis, y.came_back, f"{what}, backward")
            x.add([row for part in parts for row in part])

        return tape.made(rows, back)

    def all_to_all(self, tape: Tape, x: Node, sizes: Sequence[int], what: str) -> Asks:
        """So many rows to each expert-parallel rank, and backward their gradients back."""
        pieces = cut(x.rows, sizes)
        parts = yield from self.exchange("all-to-all", "expert", pieces, f"{what}, forward")
        came = [len(part) for part in parts]

        def back(y: Node) -> Asks:
            given = cut(y.came_back, came)
            home = yield from self.exchange("all-to-all", "expert", given, f"{what}, backward")
            x.add([row for part in home for row in part])

        return tape.made([row for part in parts for row in part], back), came

    # the two ends of what tensor parallelism cuts

    def enter(self, tape: Tape, x: Node, what: str) -> Asks:
        """Before a matrix that is cut by rows: all tokens, and backward the sum of all shares."""
        if self.split_rows:
            y, _ = yield from self.gather(tape, x, "tensor", what)
            return y
        return (yield from self.sum_backward(tape, x, "tensor", what))

    def leave(self, tape: Tape, x: Node, what: str) -> Asks:
        """After a matrix that is cut by columns: the sum of all shares, of this rank's tokens."""
        if not self.split_rows:
            return (yield from self.sum_forward(tape, x, "tensor", what))
        n = self.layout.tensor
        sizes = [len(split(len(x.rows), n, r)) for r in range(n)]
        return (yield from self.scatter(tape, x, "tensor", sizes, what))

    # attention over the tokens of all context ranks

    def heads_of(self, head: int) -> int:
        """Which of this rank's key-value heads a query head of its looks at."""
        net, r = self.network, self.at["tp"]
        first = split(net.heads, self.layout.tensor, r).start
        return self.kv_heads(r).index((first + head) * net.kv_heads // net.heads)

    def seen(self, source: int) -> list[int]:
        """How many of a source's keys each of this rank's queries sees."""
        own = len(self.tokens())
        look = ring_order.look(self.case.order, rank=self.at["cp"], source=source, own=own)
        if look is None:
            return [0] * own
        keys = [min(i + 1, look.keys) if look.causal else look.keys for i in range(own)]
        return [0 if i < look.first_query else n for i, n in enumerate(keys)]

    def attention(self, tape: Tape, q: Node, k: Node, v: Node, what: str) -> Asks:
        """Causal attention with plain scores, over the tokens of all context ranks."""
        if self.case.order != "ulysses":
            return (yield from self.ring(tape, q, k, v, what))
        given = []
        for x in (q, k, v):
            given.append((yield from self.swap(tape, x, self.to_heads, self.to_tokens, what)))
        y = self.attend_locally(tape, *given)
        return (yield from self.swap(tape, y, self.to_tokens, self.to_heads, what))

    def swap(self, tape: Tape, x: Node, there: Way, home: Way, what: str) -> Asks:
        """Tokens for heads or the other way round, by an all-to-all; backward its opposite."""
        rows = yield from there(x.rows, f"{what}, forward")

        def back(y: Node) -> Asks:
            x.add((yield from home(y.came_back, f"{what}, backward")))

        return tape.made(rows, back)

    def to_heads(self, rows: Matrix, what: str) -> Asks:
        """From all heads of own tokens to own heads of all tokens (Ulysses)."""
        N, wide = self.layout.context, len(rows[0]) // self.layout.context
        pieces = [[row[j * wide : (j + 1) * wide] for row in rows] for j in range(N)]
        parts = yield from self.exchange("all-to-all", "context", pieces, what)
        return [row for part in parts for row in part]

    def to_tokens(self, rows: Matrix, what: str) -> Asks:
        """Back to all heads of own tokens."""
        N = self.layout.context
        pieces = cut(rows, [len(rows) // N] * N)
        parts = yield from self.exchange("all-to-all", "context", pieces, what)
        return [[x for piece in row for x in piece] for row in zip(*parts, strict=True)]

    def attend_locally(self, tape: Tape, q: Node, k: Node, v: Node) -> Node:
        """Attention among the tokens that are here."""
        seen = list(range(1, len(q.rows) // self.layout.micro_batch + 1))

        def back(y: Node) -> None:
            found = self._attend_back(y.came_back, q.rows, k.rows, v.rows, seen)
            for node, gradient in zip((q, k, v), found, strict=True):
                node.add(gradient)

        return tape.made(self._attend(q.rows, k.rows, v.rows, seen), back)

    def ring(self, tape: Tape, q: Node, k: Node, v: Node, what: str) -> Asks:
        """Keys and values pass round the context ranks, and their gradients with them."""
        N, rank, held = self.layout.context, self.at["cp"], (k.rows, v.rows)
        out = zeros(len(q.rows), len(q.rows[0]))
        for step in range(self.ring_steps()):
            if step:
                held = yield from self.exchange("ring shift", "context", held, f"{what}, forward")
            out = plus(out, self._attend(q.rows, *held, self.seen((rank - step) % N)))

        def back(y: Node) -> Asks:
            held = k.rows, v.rows, zeros(*_size(k.rows)), zeros(*_size(v.rows))
            for step in range(self.ring_steps()):
                seen = self.seen((rank - step) % N)
                dq, dk, dv = self._attend_back(y.came_back, q.rows, held[0], held[1], seen)
                q.add(dq)
                held = held[0], held[1], plus(held[2], dk), plus(held[3], dv)
                held = yield from self.pass_home(held, step, what)
            k.add(held[2])
            v.add(held[3])

        return tape.made(out, back)

    def ring_steps(self) -> int:
        """As many as there are context ranks, whose keys are all met."""
        return self.layout.context

    def pass_home(self, held: Any, step: int, what: str) -> Asks:
        """Keys and values, and what their gradients are so far: after the last step, at home."""
        return (yield from self.exchange("ring shift", "context", held, f"{what}, backward"))

    def _attend(self, q: Matrix, k: Matrix, v: Matrix, seen: Sequence[int]) -> Matrix:
        b, out = self.layout.micro_batch, zeros(*_size(q))
        for n, own, theirs in self._pairs(q):
            queries = [row[own] for row in q[n::b]]
            keys, values = ([row[theirs] for row in x[n::b]] for x in (k, v))
            made = matmul(_masked(matmul_rows(queries, keys), seen), values)
            for i, row in enumerate(made):
                out[i * b + n][own] = row
        return out

    def _attend_back(
        self, dy: Matrix, q: Matrix, k: Matrix, v: Matrix, seen: Sequence[int]
    ) -> tuple[Matrix, Matrix, Matrix]:
        b, (dq, dk, dv) = self.layout.micro_batch, (zeros(*_size(x)) for x in (q, k, v))
        for n, own, theirs in self._pairs(q):
            queries, dmade = ([row[own] for row in x[n::b]] for x in (q, dy))
            keys, values = ([row[theirs] for row in x[n::b]] for x in (k, v))
            scores = _masked(matmul_rows(queries, keys), seen)
            dscores = _masked(matmul_rows(dmade, values), seen)
            for i, row in enumerate(matmul(dscores, keys)):
                dq[i * b + n][own] = row
            for into, made in (
                (dk, matmul(transposed(dscores), queries)),
                (dv, matmul(transposed(scores), dmade)),
            ):
                for i, row in enumerate(made):
                    into[i * b + n][theirs] = plus([into[i * b + n][theirs]], [row])[0]
        return dq, dk, dv

    def _pairs(self, q: Matrix) -> Iterator[tuple[int, slice, slice]]:
        """Every sequence and every head of it: where its numbers are in q and in k."""
        for n in range(self.layout.micro_batch):
            for h in range(len(q[0]) // HEAD):
                g = self.heads_of(h)
                yield n, slice(h * HEAD, (h + 1) * HEAD), slice(g * HEAD, (g + 1) * HEAD)


def cut(rows: Matrix, sizes: Sequence[int]) -> list[Matrix]:
    """Pieces of so many rows."""
    found, start = [], 0
    for size in sizes:
        found.append(rows[start : start + size])
        start += size
    return found


def _size(x: Matrix) -> tuple[int, int]:
    return len(x), len(x[0])


def _masked(scores: Matrix, seen: Sequence[int]) -> Matrix:
    """Scores of keys that a query does not see are nothing."""
    return [
        [x if j < n else 0 for j, x in enumerate(row)] for row, n in zip(scores, seen, strict=True)
    ]
