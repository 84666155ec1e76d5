"""Groups, orders, messages and cuts, as the mesh and the records have them."""

from math import gcd

import pytest
from charts import boxes, drawn, said, words
from pictures import MESSAGES

from mathlib.checks import InputError
from mathlib.show.roles import rank_look
from mathlib.show.schemes import mics


@pytest.mark.parametrize(("world", "shard", "node"), [(8, 4, 4), (8, 2, 4), (16, 8, 4)])
def test_every_rank_has_the_piece_that_the_mesh_gives_it(world, shard, node):
    hints = list(boxes(drawn(mics.groups(world, shard, node))))
    assert hints == [
        f"rank {r}, node {r // node}, piece {r % shard} of copy {r // shard}" for r in range(world)
    ]


def test_a_replica_has_a_brace_of_its_own():
    assert [w for w in words(drawn(mics.groups(8, 2, 4))) if "replica" in w] == [
        f"replica {i}" for i in range(4)
    ]


@pytest.mark.parametrize("nodes_first", [True, False])
@pytest.mark.parametrize(("p", "g"), [(2, 2), (2, 4), (3, 2)])
def test_stages_end_with_everything_everywhere(p, g, nodes_first):
    start, middle, end = mics.stages(p, g, nodes_first=nodes_first)
    N = p * g
    assert [sum(map(bool, row)) for row in start] == [1] * N
    assert [sum(map(bool, row)) for row in middle] == [p if nodes_first else g] * N
    assert end == [[frozenset([piece]) for piece in range(N)]] * N
    for r, row in enumerate(middle):
        assert row[r], "a rank keeps its own"


def test_the_order_decides_what_leaves_a_node():
    assert "first: 4 shards leave a node; Inside nodes first: 16" in said(
        drawn(mics.two_orders(2, 4))
    )


def test_messages_stand_in_their_phase_with_their_bytes():
    chart = drawn(mics.step(MESSAGES))
    assert [w for w in words(chart) if w in MESSAGES] == list(MESSAGES)
    assert words(chart).count("50.82 kB") + words(chart).count("50.8 kB") == 10
    with pytest.raises(InputError, match="what = 'broadcast'"):
        mics.step({"forward": [("broadcast", 1)]})


@pytest.mark.parametrize(("saved", "loaded"), [(4, 3), (1, 5), (12, 8), (6, 6)])
def test_a_new_rank_reads_where_pieces_overlap(saved, loaded):
    pairs = mics.overlaps(saved, loaded)
    assert len(pairs) == saved + loaded - gcd(saved, loaded)
    assert {a for a, _ in pairs} == set(range(saved)) and {b for _, b in pairs} == set(
        range(loaded)
    )


def test_ranks_of_one_colour_hold_one_piece():
    chart = drawn(mics.groups(8, 4, 4))
    fills = [r.get("fill") for r in chart.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill")]
    assert fills == [rank_look(r % 4, 4)[0] for r in range(8)]
