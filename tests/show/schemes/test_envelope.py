"""What a token meets is filled; a miss is as long as its logarithm."""

import pytest
from charts import drawn, said, words

from mathlib.checks import InputError
from mathlib.show.schemes import envelope


def test_misses_are_told_from_least_to_most():
    groups = {"To be measured": [("the rate", 1.0, 1.96)], "Reading": [("which P", 3.6, 17.9)]}
    shown = envelope.misses(groups, title="Misses")
    assert "The largest is which P: 17.9 times" in repr(shown)
    told = "To be measured. the rate: 1.00 to 1.96. Reading. which P: 3.60 to 17.9"
    assert told in said(drawn(shown))


def test_a_single_factor_is_told_once():
    told = said(drawn(envelope.misses({"once": [("twice", 1.33, 1.33)]}, title="Misses")))
    assert "twice: 1.33." in told


def test_a_factor_below_one_is_refused():
    with pytest.raises(InputError, match="the smaller one first"):
        envelope.misses({"": [("less", 0.5, 2.0)]}, title="Misses")


def test_a_token_meets_fewer_than_the_layer_holds():
    shown = envelope.meets(heads=6, kv_heads=3, experts=5, active=2)
    assert "6 heads of queries share 3 of keys and values, so" in repr(shown)
    assert words(drawn(shown)).count("q") == 6 and words(drawn(shown)).count("k, v") == 3
    with pytest.raises(InputError, match="kv_heads = 3"):
        envelope.meets(heads=8, kv_heads=3)
