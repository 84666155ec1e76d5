"""What is drawn of a sum is how it comes about: who holds what, who sends what."""

import pytest
from charts import SPACE, drawn

from mathlib.checks import InputError
from mathlib.show.schemes import sums


def lines(chart, piece):
    return [p.get("d") for p in chart.iter(f"{SPACE}path") if piece in p.get("d", "")]


@pytest.mark.parametrize(("ranks", "node"), [(8, 4), (8, 2), (6, 3), (4, 4)])
def test_levels_add_inside_then_across_then_hand_out(ranks, node):
    before, inside, across, after = sums.held_by_levels(ranks, node)
    everybody = frozenset(range(ranks))
    for r in range(ranks):
        mine = range(r // node * node, (r // node + 1) * node)
        together = [frozenset().union(*(before[m][p] for m in mine)) for p in range(node)]
        for p in range(node):
            assert inside[r][p] == (together[p] if p == r % node else frozenset())
            assert across[r][p] == (everybody if p == r % node else frozenset())
    assert all(whose == everybody for row in after for whose in row)


def test_nodes_must_be_full():
    with pytest.raises(InputError, match="multiple of node = 4"):
        sums.levels(6, 4)


@pytest.mark.parametrize("ranks", [3, 4, 7])
def test_the_proof_has_a_message_for_each_other_rank_on_either_side(ranks):
    chart = drawn(sums.first_sum(ranks))
    assert len(lines(chart, "C")) == 2 * (ranks - 1)
    texts = [t.text for t in chart.iter(f"{SPACE}text")]
    assert {f"before: {ranks - 1} messages", f"after: {ranks - 1} messages"} <= set(texts)


def test_rings_use_every_card_and_a_tree_one_for_each_of_two_chunks():
    chart = drawn(sums.nccl(4))
    across = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray")]
    assert len(across) == 2  # there and back, of the second chunk
    assert len(lines(chart, "C")) == 2 * 2 * 3  # chains in two nodes, of rings and of the tree
    assert sum(t.text == "switch" for t in chart.iter(f"{SPACE}text")) == 2
