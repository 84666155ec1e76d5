"""Units in shards: padded, cut in order, and the same update wherever a number is."""

from mathlib.layout import Layout
from mathlib.prover.case import case
from mathlib.prover.program import Program
from mathlib.prover.ranks import Ranks


def noted(layout):
    one = case(layout)
    return Ranks({r: Program(one, r).run() for r in range(layout.world)}).run()


def test_shards_side_by_side_are_what_replicas_have():
    whole = noted(Layout(data=3))[0]
    for stage in (1, 2, 3):
        ranks = noted(Layout(data=3, zero=stage))
        for kind in ("gradient", "momenta"):
            parts = [ranks[r][kind, "layers.0", 0] for r in range(3)]
            numbers = [x for _, shard in parts for x in shard]
            size = len(whole[kind, "layers.0", 0][1])
            assert [start for start, _ in parts] == [0, -(-size // 3), 2 * -(-size // 3)]
            assert numbers[:size] == whole[kind, "layers.0", 0][1]
            assert not any(numbers[size:]), "padding stays nothing"


def test_stage_3_keeps_no_weights_but_its_shards():
    one = case(Layout(data=2, zero=3))
    place = Program(one, 0)
    place.load()
    assert not any(x for node in place.nodes.values() for row in node.rows for x in row)
    held, every = (sum(map(len, x.values())) for x in (place.weights, place.inside))
    assert held * 2 >= sum(p.rows * p.columns for p in one.network.parameters()) > held and every


def test_pieces_are_as_many_as_asked_for_and_equally_long():
    place = Program(case(Layout(data=2)), 0)
    assert place.pieces([1, 2, 3], 2) == [[1, 2], [3, 0]]
