"""Ranks stand with the ranks of their copy, in the order of their nodes."""

import pytest
from charts import boxes, drawn

from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.rank_grid import held_after, rank_rows
from mathlib.traffic import mesh


def places(world, shard, node, nodes):
    def draw(width):
        page = Canvas(width, "Ranks")
        rank_rows(page, mesh.sagemaker(world=world, shard=shard), node, nodes)
        return page.done("Ranks in nodes")

    return list(boxes(drawn(figure(draw, caption="Ranks."))).values())


def test_a_node_is_a_row_and_copies_are_apart():
    found = places(8, 4, 4, 2)
    assert len({y for _, y, _, _ in found[:4]}) == 1 and found[4][1] > found[0][1]
    inside = places(8, 2, 4, 2)
    near, far = inside[1][0] - inside[0][0], inside[2][0] - inside[1][0]
    assert far > near


def test_rows_of_one_copy_stand_closer_than_those_of_two():
    tops = [y for _, y, _, _ in places(16, 8, 4, 4)[::4]]
    assert tops[1] - tops[0] == tops[3] - tops[2] < tops[2] - tops[1]


def test_only_so_many_nodes_are_drawn():
    assert len(places(64, 8, 8, 3)) == 24


@pytest.mark.parametrize("n", range(2, 9))
def test_pieces_fill_and_finish_as_the_text_says(n):
    everyone = frozenset(range(n))
    for step in range(n):
        held, _ = held_after(n, step)
        assert sorted(len(piece) for row in held for piece in row)[-n:] == [step + 1] * n, (
            "one longer chain a rank"
        )
    assert [row.index(everyone) for row in held_after(n, n - 1)[0]] == list(range(n)), (
        "piece r is finished on rank r"
    )
    for step in range(n - 1, 2 * n - 1):
        assert all(row.count(everyone) == step - n + 2 for row in held_after(n, step)[0])
