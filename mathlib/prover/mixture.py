"""A layer of experts: tokens go to the ranks that have their experts, and come back.

E experts of a layer · N ranks of an expert-parallel group, with E/N each

With sequence parallelism a rank sends its own tokens, and those that share an expert gather them
(Megatron-LM's order); without it all tensor ranks send the same ones, each for its share.
"""

from collections.abc import Sequence

from mathlib.prover.exchanges import Exchanges
from mathlib.prover.modular import inverse, plus, scaled, zeros
from mathlib.prover.network import ACTIVE, WIDTH
from mathlib.prover.ranks import Asks
from mathlib.prover.tape import Node, Tape

Visit = tuple[int, int]  # the expert, and the row that visits it


class Mixture(Exchanges):
    """A rank that has experts. `nodes`: its weights; `visits`: of every expert, in the whole batch,
    by all ranks.
    """

    nodes: dict[str, Node]
    visits: list[int]

    def experts(self, tape: Tape, x: Node, of: str, i: int) -> Asks:
        """The sum of what its experts make of a token, times their scores."""
        rows = self.rows(i, self.stream_tokens())
        scores = self.balanced(tape, tape.linear(x, self.nodes[f"{of}.router"]))
        chosen = [self.case.drawn.chosen[n][place] for n, place in rows]
        visits = sorted((e, row) for row, both in enumerate(chosen) for e in both)
        if not self.split_rows:
            x = yield from self.sum_backward(tape, x, "expert tensor", f"{of}.experts")
        back = yield from self.visited(tape, tape.pick(x, [row for _, row in visits]), visits, of)
        return self.combine(tape, scores, back, visits)

    def visited(self, tape: Tape, x: Node, visits: Sequence[Visit], of: str) -> Asks:
        """What is made of rows that are sorted by expert."""
        N = self.layout.expert
        ids = [[[e] for e, _ in visits if e in self.own_experts(rank)] for rank in range(N)]
        given = [len(one) for one in ids]
        x, came = yield from self.all_to_all(tape, x, given, f"{of}.experts, there")
        arrived = yield from self.exchange("all-to-all", "expert", ids, f"{of}, which experts")
        whose = [e for part in arrived for (e,) in part]
        sizes = [len(whose)]
        if self.split_rows:
            x, sizes = yield from self.gather(tape, x, "expert tensor", f"{of}.experts")
            parts = yield from self.exchange("all-gather", "expert tensor", whose, f"{of}, whose")
            whose = [e for part in parts for e in part]
        y = self.each_expert(tape, x, whose, of)
        if self.split_rows:
            y = yield from self.scatter(tape, y, "expert tensor", sizes, f"{of}.experts")
        else:
            y = yield from self.sum_forward(tape, y, "expert tensor", f"{of}.experts")
        back, _ = yield from self.all_to_all(tape, y, came, f"{of}.experts, back")
        return back

    def each_expert(self, tape: Tape, x: Node, whose: Sequence[int], of: str) -> Node:
        """Every expert of this rank on the rows that came for it; in the order they came in."""
        mine, parts, order = self.own_experts(self.expert_at["ep"]), list[Node](), list[int]()
        for e in mine:
            places = [place for place, one in enumerate(whose) if one == e]
            parts.append(self.gated(tape, tape.pick(x, places), f"{of}.experts.{e}"))
            order += places
        return tape.joined(parts, sorted(range(len(order)), key=order.__getitem__))

    def gated(self, tape: Tape, x: Node, of: str) -> Node:
        """Gate times up, and down: one rank's share."""
        gate, up = (tape.linear(x, self.nodes[f"{of}.{name}"]) for name in ("gate", "up"))
        return tape.linear(tape.multiply(gate, up), self.nodes[f"{of}.down"])

    def combine(self, tape: Tape, scores: Node, made: Node, visits: Sequence[Visit]) -> Node:
        """Every row's visits, times their scores."""
        rows = zeros(len(scores.rows), WIDTH)
        for (e, row), one in zip(visits, made.rows, strict=True):
            rows[row] = plus([rows[row]], scaled([one], [scores.rows[row][e]] * len(one)))[0]

        def back(y: Node) -> None:
            dy, dmade = y.came_back, []
            dscores = zeros(len(scores.rows), self.network.experts)
            for (e, row), one in zip(visits, made.rows, strict=True):
                dmade.append([d * scores.rows[row][e] for d in dy[row]])
                dscores[row][e] = sum(d * x for d, x in zip(dy[row], one, strict=True))
            made.add(scaled(dmade, [1]))
            scores.add(scaled(dscores, [1]))

        return tape.made(rows, back)

    def balanced(self, tape: Tape, scores: Node) -> Node:
        """Adds to the loss E sum f p, of visits' shares f in the whole batch and mean scores p."""
        E, T = self.network.experts, self.layout.sequences * self.network.tokens
        share = E * self.case.drawn.rates[2] * inverse(ACTIVE * T * T)
        push = scaled([self.visits], [share])

        def back(y: Node) -> None:
            scores.add(plus(y.came_back, push * len(scores.rows)))

        return tape.made(scores.rows, back)
