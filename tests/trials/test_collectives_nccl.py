"""What is said of NCCL: prices, borders, published times, and formulas that are wrong."""

import pytest

from mathlib.trials import collectives_nccl as cluster


def test_rings_pay_for_steps_and_a_tree_for_bytes():
    (steps, moving), tree, both = cluster.prices().values()
    assert steps > moving and tree[1] > 3 * tree[0] and both[0] < 0.6 * steps
    assert both[1] < 0.5 * tree[1]


def test_a_tree_overtakes_rings_later_with_more_bytes_and_sooner_with_dearer_steps():
    sizes = (cluster.BUCKET, cluster.GIB, 4 * cluster.GIB)
    assert [cluster.tree_from(k) - 1 for k in sizes] == [5, 48, 176]
    assert [cluster.tree_from(k, 2.25) - 1 for k in sizes] == [2, 24, 82]
    for k in sizes:
        for nodes in (cluster.tree_from(k) - 1, cluster.tree_from(k)):
            took = cluster.seconds(k, nodes)
            assert (took["tree"] < took["rings"]) == (nodes == cluster.tree_from(k))
    half = cluster.seconds(cluster.GIB, 66, cluster.CARDS / 2)
    assert half["rings"] < half["tree"], "cards of half the bandwidth move the border"


def test_levels_are_slower_than_rings_and_the_switch_is_fastest():
    levels, rings, tree, both = (dict(points) for points in cluster.by_nodes().values())
    assert all(levels[n] > rings[n] > both[n] for n in tree)
    assert rings[64] < tree[64] and tree[128] < rings[128]


@pytest.mark.parametrize(
    ("payload", "nodes", "way"),
    [(2**20, 4, "tree"), (cluster.GIB, 4, "switch (rings)"), (2**20, 1, "rings")],
)
def test_the_choice_goes_by_size_and_nodes(payload, nodes, way):
    assert cluster.chosen(payload, nodes) == way


def test_published_times_lie_by_the_model_where_bytes_decide():
    step, once = cluster.latency()
    assert (round(1e6 * step, 1), round(1e6 * once, 1)) == (2.0, 5.6)
    ratio = {name: took / model for name, (_, model, took) in cluster.ratios().items()}
    assert len(ratio) == 21 and max(ratio.values()) == ratio["DGX A100, 8 ranks"]
    assert all(abs(r - 1) < 0.15 for name, r in ratio.items() if "4 GiB" in name)
    way, model, took = cluster.ratios()["248 nodes, 512 MiB"]
    assert (way, round(1e3 * model, 1), round(1e3 * took, 1)) == ("switch and tree", 3.3, 3.1)
    assert round(1e3 * cluster.seconds(512 * 2**20, 248)["rings"], 1) == 12.2
    steps, moving = cluster.prices(512 * 2**20, 248)["rings"]
    assert round(1e3 * steps, 1) == 8.6 and moving > 2.6e-3


def test_each_further_node_costs_a_reduce_scatter_more_than_the_model_says():
    per_node = [cluster.each_node(name) for name in cluster.small()]
    assert [round(x, 1) for x in per_node] == [21.9, 0.9, 9.7]


def test_wrong_formulas_are_wrong_and_the_right_ones_are_not():
    for place in ((2, 1), (1, 8), (2, 8), (4, 8)):
        charged, sent = cluster.torchrec(*place)
        assert abs(charged / sent - 1) > 0.19, place
    assert list(cluster.mlsysim().values()) == [2, 1.25, 1]
    _, first, second = zip(*(cluster.in_network(r) for r in range(5, 9)), strict=True)
    assert max(first) > 1.2 * min(first) and max(second) < 1.01 * min(second)
