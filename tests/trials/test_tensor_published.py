"""Published degrees beside the model: relative to the first, falling, at the border of a node."""

import pytest

from mathlib.trials import tensor_published as published


def test_speeds_fall_with_the_degree_in_the_model_and_in_the_runs():
    for pairs in (published.nanotron(), published.megatron()):
        for speeds in zip(*pairs.values(), strict=True):
            assert speeds[0] == 1 and list(speeds) == sorted(speeds, reverse=True)
    assert published.lost("8B", 8, 16) == pytest.approx(1 - 4456 / 6417)


def test_a_narrow_border_costs_more_than_the_degree():
    for title, *_, inside, across, same_link in published.border("llama3-70b"):
        shares = [int(share.rstrip("%")) for share in (inside, same_link, across)]
        assert shares == sorted(shares, reverse=True), title


def test_ranks_that_send_more_share_less():
    found = published.by_degree({"card": ("llama3-70b", 50e9)})["card"]
    shares = [share for _, share in found]
    assert shares == sorted(shares) and 10 < shares[0] < 50 < shares[-1]
    assert [row[-1] for row in published.asynchronous()] == ["9%", "16%", "10%", "6%"]
