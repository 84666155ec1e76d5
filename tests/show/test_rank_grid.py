"""Ranks stand with the ranks of their copy, in the order of their nodes."""

from charts import boxes, drawn

from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.rank_grid import rank_rows
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
