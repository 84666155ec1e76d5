"""Two ranks over a slow link: the plan by hand, and a run that is no faster than it."""

import pytest

from mathlib.launch import namespaces
from mathlib.schedule.cluster import Cluster
from mathlib.trials import tensor_slow


@pytest.mark.parametrize("network", ["paced", "namespaces"])
def test_the_plan_is_half_the_pauses_and_four_sums(network):
    link = tensor_slow.LINKS[0]
    with namespaces.made(Cluster((1, 1))) as place:
        if network == "namespaces" and place.way != network:
            pytest.skip(place.why)
    one = tensor_slow.beside(link, network=network)
    K = tensor_slow.NUMBER * tensor_slow.SHAPE.context * tensor_slow.SHAPE.width
    assert one.plan.amount("compute") == pytest.approx(3 * tensor_slow.PAUSE / 2)
    assert one.plan.amount("transfer") == pytest.approx(4 * K / link)
    assert one.seconds > 0.95 * one.planned  # no clock can make it faster
    assert one.planned > tensor_slow.SHAPE.layers * 3 * tensor_slow.PAUSE  # slower than one rank
