"""Rules for layers become the pattern that says the same of every layer, or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.from_config import pieces
from mathlib.from_config.asked import Asked
from mathlib.specs import Experts, Window

LAYERS = st.integers(1, 24)


@given(LAYERS, st.integers(2, 8))
def test_a_window_on_all_but_every_nth_layer(layers, n):
    rule = pieces.all_but_every(n)
    found = pieces.sliding(Asked({}), {"layers": layers}, rule, 8)["window"]
    assert [found.at(i) for i in range(layers)] == [rule(i) for i in range(layers)]
    assert rule(0) and not rule(n - 1)


def test_no_window_where_no_layer_has_one_or_none_has_a_width():
    for rule, width in ((pieces.never, 8), (pieces.always, None)):
        assert "window" not in pieces.sliding(Asked({}), {"layers": 4}, rule, width)


def test_what_the_config_lists_goes_before_the_rule():
    kinds = {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
    found = pieces.sliding(Asked(kinds), {"layers": 3}, pieces.always, 8)
    assert found["window"] == Window(8, full_first=1)
    with pytest.raises(InputError, match="layer_types is not covered"):
        pieces.window_of(4, 8, [True, False, False, True], False)


@given(LAYERS, st.integers(0, 4), st.integers(1, 4))
def test_experts_in_every_nth_layer_behind_the_dense_ones(layers, dense, every):
    wanted = Experts(4, 2, 8, dense_layers=min(dense, layers), every=every)
    found = pieces.experts(layers, wanted.at, routed=4, active=2, width=8).get("experts")
    told = [bool(found) and found.at(i) for i in range(layers)]
    assert told == [wanted.at(i) for i in range(layers)]


def test_a_bias_of_attentions_output_is_as_that_of_its_inputs_unless_said():
    assert pieces.biases(True) == {"qkv_bias": True, "output_bias": True, "mlp_bias": False}
    assert pieces.biases(True, output=False)["output_bias"] is False
