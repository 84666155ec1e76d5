"""Groups, knobs and checkpoints, before any page."""

import re

import pytest
from charts import boxes, widths

from mathlib.compute import params
from mathlib.explore import mics
from mathlib.plan import goodput
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.traffic import mesh


def crossing(world, shard, node, m=1, stages=True):
    grid = mesh.sagemaker(world=world, shard=shard)
    return mics.crossing(1.0, grid=grid, node=node, stages=stages, micro_batches=m)


def test_a_group_inside_a_node_only_sends_its_sums():
    found = crossing(16, 8, 8)
    assert found["weights"] == found["gradients"] == 0
    assert found["gradients, replicas"] == 8 * 2 * 1 / 2 / 8


def test_one_copy_sends_no_sums_and_one_node_sends_nothing():
    assert crossing(16, 16, 8)["gradients, replicas"] == 0
    assert sum(crossing(8, 4, 8).values()) == 0


def test_micro_batches_multiply_all_but_the_sums():
    once, thrice = crossing(64, 16, 8), crossing(64, 16, 8, m=3)
    assert thrice["weights"] == 3 * once["weights"]
    assert thrice["gradients"] == 3 * once["gradients"]
    assert thrice["gradients, replicas"] == once["gradients, replicas"]


def test_stages_send_less_than_one_ring():
    assert crossing(16, 16, 8)["weights"] == 2 * 8 / 16
    assert crossing(16, 16, 8, stages=False)["weights"] == 2 * 15 / 16


def test_the_picture_shows_so_many_nodes_and_says_how_many_are_left():
    html = find("sharding-groups").run({"nodes": 64, "shard": 512})
    assert "and 58 nodes more" in html and "1 copy of the model" in html
    ranks = [hint for hint in boxes(widths(html)[0]) if hint.startswith("rank ")]
    assert len(ranks) == 8 * mics.DRAWN


def test_a_degree_that_does_not_divide_is_refused_with_the_list():
    html = find("sharding-groups").run({"nodes": 1, "shard": 16})
    assert "accepted: 1, 2, 4, 8" in html


@pytest.mark.parametrize("model", mics.MODELS)
def test_tensors_are_all_parameters(model):
    tensors = mics.tensors_of(model)
    assert sum(size * n for size, n in tensors.items()) == params.count(model).total


def test_the_page_s_threshold_leaves_two_tensors_of_three_whole():
    tensors = mics.tensors_of("gpt-neox-20b")
    assert sum(n for size, n in tensors.items() if size < 1e6) / sum(tensors.values()) > 0.66
    low, high = (find("sharding-knobs").run({"threshold": size}) for size in (1, 2**20))
    assert "532 of 532 tensors" in low and "178 of 532 tensors" in high


def test_a_checkpoint_is_twelve_bytes_a_parameter():
    html = find("checkpoints").run({"model": "gpt-neox-20b", "devices": 64})
    P = params.count("gpt-neox-20b").total
    save = goodput.write_time(payload=12 * P, ranks=64, bandwidth=1e9, storage_bandwidth=10e9)
    assert save == pytest.approx(24.67, rel=1e-3)
    assert f"A checkpoint of {says.size(12 * P)} takes {says.time(save)}" in html


def test_the_best_interval_loses_no_more_than_another():
    for minutes in (1, 32, 512):
        html = find("checkpoints").run({"minutes": minutes})
        here, ideal = (
            float(share) for share in re.findall(r"([\d.]+)%(?= of the time|\.</p>)", html)
        )
        assert ideal <= here
