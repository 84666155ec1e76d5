"""Layers: the loss is the weighted mean that its docstring says, from scores cut by words."""

from mathlib.layout import Layout
from mathlib.prover.case import case
from mathlib.prover.modular import PRIME, inverse, matmul_rows, scaled
from mathlib.prover.program import Program
from mathlib.prover.ranks import Ranks
from mathlib.prover.tape import Node, Tape


def test_the_loss_is_the_weighted_mean_of_z_times_z_less_the_targets_score():
    one = case(Layout(tensor=3), tied=False)
    rows = one.drawn.weights["positions"]

    def program(rank):
        place = Program(one, rank)
        place.load()
        yield from place.count()
        y = yield from place.loss(Tape(), Node(rows), 0)
        return y.rows

    found = Ranks({r: program(r) for r in range(3)}).run()
    scores = matmul_rows(scaled(rows, one.drawn.weights["norm"][0]), one.drawn.weights["head"])
    share = inverse(sum(one.drawn.counts[0]) % PRIME)
    for t, row in enumerate(scores):
        z = sum(x * x for x in row)
        wanted = z * (z - row[one.drawn.words[0][t + 1]]) * one.drawn.counts[0][t] * share % PRIME
        assert all(by_rank[t] == [wanted] for by_rank in found.values())


def test_the_target_is_the_next_word_and_another_ranks_word_is_nothing_here():
    one = case(Layout(tensor=2))
    place = Program(one, 1)
    assert place.target(0, 1) == one.drawn.words[0][2]
    assert [place.word_row(w) for w in (0, 4, 5, 10)] == [None, None, 0, 5]
