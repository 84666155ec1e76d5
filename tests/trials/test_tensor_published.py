"""Published degrees beside the model: relative to the first, falling, at the border of a node."""

import pytest

from mathlib.trials import tensor_published as published


def test_speeds_fall_with_the_degree_in_the_model_and_in_the_runs():
    for pairs in (published.nanotron(), published.megatron()):
        for speeds in zip(*pairs.values(), strict=True):
            assert speeds[0] == 1 and list(speeds) == sorted(speeds, reverse=True)


def test_the_step_to_two_nodes_costs_more_than_the_degree_and_bytes_explain_a_part():
    found = [published.lost(name) for name in ("8B", "1B")]
    assert [one.published for one in found] == pytest.approx([1 - 4456 / 6417, 1 - 13505 / 27851])
    assert all(0.45 < one.degree / one.published < one.explained < 1 for one in found)
    assert published.steps() == [["8B", "19%", "23%", "31%"], ["1B", "26%", "30%", "52%"]]


def test_a_narrow_border_costs_more_than_the_degree():
    for title, *_, inside, across, same_link in published.border("llama3-70b"):
        shares = [int(share.rstrip("%")) for share in (inside, same_link, across)]
        assert shares == sorted(shares, reverse=True), title


def test_ranks_that_send_more_share_less():
    found = published.by_degree({"card": ("llama3-70b", 50e9)})["card"]
    shares = [share for _, share in found]
    assert shares == sorted(shares) and 10 < shares[0] < 50 < shares[-1]
    assert [row[-1] for row in published.asynchronous()] == ["9%", "16%", "10%", "6%"]
