"""The layers of the network as a rank computes them, forward; the tape knows the way back."""

from mathlib.prover.mixture import Mixture
from mathlib.prover.modular import PRIME, Matrix, inverse, split, times
from mathlib.prover.network import WORDS
from mathlib.prover.ranks import Asks
from mathlib.prover.tape import Node, Tape


class Layers(Mixture):
    """A rank that computes. `counted`: what all targets of the batch weigh."""

    counted: int

    def watched(self, name: str, micro_batch: int, rows: Matrix) -> None:
        """Note a tensor, for the comparison."""
        raise NotImplementedError

    def watch(self, tape: Tape, x: Node, name: str, micro_batch: int) -> Node:
        """Note what passes here, and the gradient that comes back."""
        self.watched(name, micro_batch, x.rows)

        def back(y: Node) -> None:
            self.watched(f"gradient of {name}", micro_batch, y.came_back)
            x.add(y.came_back)

        return tape.made(x.rows, back)

    # the ends of the model

    def embed(self, tape: Tape, i: int) -> Asks:
        """Words of a micro-batch, of which tensor ranks have some each, and positions."""
        table = [self.case.drawn.words[n][place] for n, place in self.rows(i, self.tokens())]
        x = tape.look_up(self.nodes["embedding"], [self.word_row(word) for word in table])
        x = yield from self.leave(tape, x, "embedding")
        places = [self.position(place) for _, place in self.rows(i, self.stream_tokens())]
        x = tape.add(x, tape.look_up(self.nodes["positions"], places))
        return self.watch(tape, x, "embedding", i)

    def own_words(self) -> range:
        """The words that are this rank's."""
        return split(WORDS, self.layout.tensor, self.at["tp"])

    def word_row(self, word: int) -> int | None:
        """Where a word is in this rank's table; None: it is another rank's."""
        own = self.own_words()
        return own.index(word) if word in own else None

    def position(self, place: int) -> int:
        """The position of a token in its sequence."""
        return place

    def loss(self, tape: Tape, x: Node, i: int) -> Asks:
        """The weighted mean of z (z - x_y), z the sum of x^2; the scores are cut by words, so that
        both are sums over ranks.
        """
        x = tape.scale(x, self.nodes["norm"])
        x = yield from self.enter(tape, x, "head")
        scores = tape.linear(x, self.nodes["embedding" if self.network.tied else "head"])
        targets = [self.word_row(self.target(n, t)) for n, t in self.rows(i, self.tokens())]
        pairs = [
            [sum(s * s for s in row), 0 if y is None else row[y]]
            for row, y in zip(scores.rows, targets, strict=True)
        ]
        pairs = yield from self.sum_scores(pairs)
        weigh = [self.weight(n, t, i) for n, t in self.rows(i, self.tokens())]
        by_token = list(zip(scores.rows, pairs, weigh, strict=True))
        losses = [[z * (z - y) * w % PRIME] for _, (z, y), w in by_token]
        self.watched("loss", i, losses)

        def back(_end: Node) -> None:
            gradient = [[(2 * z - y) * 2 * w * s for s in own] for own, (z, y), w in by_token]
            for row, (_, (z, _), w), y in zip(gradient, by_token, targets, strict=True):
                if y is not None:
                    row[y] -= z * w
            scores.add(times(gradient, 1))

        return tape.made(losses, back)

    def sum_scores(self, pairs: Matrix) -> Asks:
        """z and the target's score, of the words of all ranks."""
        return (yield from self.exchange("all-reduce", "tensor", pairs, "sums of scores"))

    def target(self, sequence: int, place: int) -> int:
        """The word that comes next."""
        return self.case.drawn.words[sequence][place + 1]

    def weight(self, sequence: int, place: int, micro_batch: int) -> int:
        """Of a token's loss: its share of what all targets of the batch weigh."""
        return self.case.drawn.counts[sequence][place] * inverse(self.counted) % PRIME

    # a layer

    def layer(self, tape: Tape, x: Node, of: str, i: int) -> Asks:
        """Attention and MLP, each added to the stream."""
        x = tape.add(x, (yield from self.attend(tape, x, of)))
        y = tape.scale(x, self.nodes[f"{of}.mlp_norm"])
        if f"{of}.router" in self.nodes:
            y = yield from self.experts(tape, y, of, i)
        else:
            y = yield from self.mlp(tape, y, of)
        return self.watch(tape, tape.add(x, y), of, i)

    def attend(self, tape: Tape, x: Node, of: str) -> Asks:
        """Heads are cut over tensor ranks."""
        w = self.nodes
        x = tape.scale(x, w[f"{of}.norm"])
        x = yield from self.enter(tape, x, f"{of}.attention")
        q, k, v = (tape.linear(x, w[f"{of}.{name}"]) for name in ("query", "key", "value"))
        q = tape.scale(q, w[f"{of}.query_norm"])
        k = tape.scale(k, w[f"{of}.key_norm"])
        y = yield from self.attention(tape, q, k, v, f"{of}.attention")
        return (yield from self.out(tape, tape.linear(y, w[f"{of}.out"]), f"{of}.out"))

    def out(self, tape: Tape, y: Node, of: str) -> Asks:
        """The sum of what tensor ranks have, and then the bias."""
        y = yield from self.leave(tape, y, of)
        return tape.shift(y, self.nodes[f"{of}_bias"])

    def mlp(self, tape: Tape, x: Node, of: str) -> Asks:
        """Its width is cut over tensor ranks."""
        x = yield from self.enter(tape, x, f"{of}.mlp")
        return (yield from self.out(tape, self.gated(tape, x, of), f"{of}.down"))
