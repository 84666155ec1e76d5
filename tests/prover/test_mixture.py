"""Experts: a layer over ranks is the sum over a token's experts, with its scores."""

from mathlib.layout import Layout
from mathlib.prover.case import case
from mathlib.prover.modular import PRIME, matmul_rows, plus, product, scaled
from mathlib.prover.program import Program
from mathlib.prover.ranks import Ranks
from mathlib.prover.tape import Node, Tape

LAYOUT = Layout(data=2, tensor=2, expert=4, expert_tensor=1, sequence_parallel=True)


def made(one, rows):
    """Of every token, what its experts make of it, by sequence and place."""

    def program(rank):
        place = Program(one, rank)
        place.load()
        yield from place.count()
        where = place.rows(0, place.stream_tokens())
        x = Node([rows[n][t] for n, t in where])
        y = yield from place.experts(Tape(), x, "layers.1", 0)
        return dict(zip(where, y.rows, strict=True))

    found = Ranks({r: program(r) for r in range(one.layout.world)}).run()
    return {at: row for of_rank in found.values() for at, row in of_rank.items()}


def test_a_tokens_rows_come_back_from_its_experts():
    one = case(LAYOUT)
    rows = [one.drawn.weights["positions"] for _ in range(one.layout.sequences)]
    found = made(one, rows)
    assert len(found) == 2 * one.network.tokens
    for (n, t), row in found.items():
        x, wanted = [rows[n][t]], [[0] * len(row)]
        scores = matmul_rows(x, one.drawn.weights["layers.1.router"])[0]
        for e in one.drawn.chosen[n][t]:
            w = {k: one.drawn.weights[f"layers.1.experts.{e}.{k}"] for k in ("gate", "up", "down")}
            inner = product(matmul_rows(x, w["gate"]), matmul_rows(x, w["up"]))
            wanted = plus(wanted, scaled(matmul_rows(inner, w["down"]), [scores[e]]))
        assert [row] == wanted


def test_visits_are_those_of_all_ranks():
    one = case(LAYOUT)

    def program(rank):
        place = Program(one, rank)
        yield from place.count()
        return place.visits, place.counted

    found = Ranks({r: program(r) for r in range(one.layout.world)}).run()
    every = [e for of in one.drawn.chosen for both in of for e in both]
    visits = [every.count(e) for e in range(one.network.experts)]
    assert all(one_rank[0] == visits for one_rank in found.values())
    assert found[0][1] == sum(map(sum, one.drawn.counts)) % PRIME
