"""A layer's time by laws that hold for any numbers, and the border by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.model import gpt
from mathlib.traffic import tensor_time, volumes

WIDE = gpt.small(layers=3, width=4096, heads=64, context=64, vocab=100)
RATES = {"achieved": 4e14, "bandwidth": 4.5e11}


@given(st.integers(1, 6), st.integers(1, 8), st.floats(1e9, 1e15), st.floats(1e6, 1e12))
def test_a_layer_computes_a_share_and_sends_what_the_volumes_say(power, b, X, W):
    t, rates = 2**power, {"achieved": X, "bandwidth": W, "latency": 1e-5}
    alone = tensor_time.layer(WIDE, tensor=1, micro_batch=b, **rates)
    found = tensor_time.layer(WIDE, tensor=t, micro_batch=b, **rates)
    assert found.amount("compute") == pytest.approx(alone.total / t)
    sent = volumes.tensor_parallel(WIDE, tensor=t, micro_batch=b).total / WIDE.layers
    assert found.amount("transfer") == pytest.approx(sent / W)
    assert found.amount("latency") == pytest.approx(8 * (t - 1) * 1e-5)


def test_at_the_even_degree_a_layer_sends_as_long_as_it_computes_whatever_the_batch():
    degree = tensor_time.even_degree(width=WIDE.width, **RATES)
    assert degree == pytest.approx(1 + 9 * 4096 * 4.5 / (2 * 4e3))
    rates = RATES | {"bandwidth": RATES["bandwidth"] * 31 / (degree - 1)}  # even at 32
    for b in (1, 7):
        found = tensor_time.layer(WIDE, tensor=32, micro_batch=b, **rates)
        pairs = 1 + WIDE.context / (6 * WIDE.width)  # that attention adds
        assert found.amount("compute") == pytest.approx(pairs * found.amount("transfer"))


def test_a_ring_leaves_a_node_by_all_its_cards():
    slow, even = specs.find_cluster("p4d.24xlarge"), specs.find_cluster("p5.48xlarge")
    found = [tensor_time.ring_bandwidth(one, t) for one in (slow, even) for t in (8, 16)]
    assert found == [300e9, 50e9, 450e9, 400e9]
    with pytest.raises(InputError, match="tensor = 12"):
        tensor_time.ring_bandwidth(even, 12)
