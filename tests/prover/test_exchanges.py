"""Operations over ranks: each is what one process has, forward and backward."""

from random import Random

import pytest

from mathlib.layout import Layout
from mathlib.prover.case import ORDERS, case
from mathlib.prover.exchanges import Exchanges, cut
from mathlib.prover.ranks import Ranks
from mathlib.prover.tape import Node, Tape

RANDOM = Random(5)


def drawn(rows, columns):
    return [[RANDOM.randrange(100) for _ in range(columns)] for _ in range(rows)]


def attended(one, whole):
    """Output and gradients of attention, by the places of tokens."""

    def program(rank):
        place, tape = Exchanges(one, rank), Tape()
        rows = [t * one.layout.micro_batch + n for n, t in place.rows(0, place.tokens())]
        q, k, v, dy = (Node([x[i] for i in rows]) for x in whole)
        y = yield from place.attention(tape, q, k, v, "x")
        y.gradient = dy.rows
        yield from tape.backward()
        found = (y.rows, q.came_back, k.came_back, v.came_back)
        return {i: [x[j] for x in found] for j, i in enumerate(rows)}

    by_rank = Ranks({r: program(r) for r in range(one.layout.world)}).run().values()
    return {i: row for found in by_rank for i, row in found.items()}


@pytest.mark.parametrize("order", ORDERS)
def test_context_ranks_attend_as_one_process_does(order):
    for ranks in (2, 3):
        many = case(Layout(context=ranks, micro_batch=2), order=order)
        heads, kv = 2 * many.network.heads, 2 * many.network.kv_heads
        whole = [drawn(2 * many.network.tokens, wide) for wide in (heads, kv, kv, heads)]
        wanted, found = attended(many.on_one(), whole), attended(many, whole)
        assert found == wanted and len(found) == 2 * many.network.tokens


def test_rows_are_cut_into_pieces_in_order():
    assert cut([[1], [2], [3]], [2, 0, 1]) == [[[1], [2]], [], [[3]]]
