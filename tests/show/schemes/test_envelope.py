"""What a token meets is filled; a miss is a dot on a logarithmic scale."""

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


def test_dots_are_one_for_each_factor_and_some_may_save():
    rows = {"": [("paid", 1.5, 0.84, 1.2)]}
    shown = envelope.misses(rows, title="Misses")
    assert "paid: 0.84 to 1.50" in said(drawn(shown)) and "0.8" in words(drawn(shown))
    assert shown._repr_html_().count(envelope.DOT) == 6, "two drawings"


def test_a_factor_far_below_one_is_refused():
    for factors in ((0.5, 2.0), ()):
        with pytest.raises(InputError, match="expected factors from 0.8 on"):
            envelope.misses({"": [("less", *factors)]}, title="Misses")


def test_a_token_meets_fewer_than_the_layer_holds():
    shown = envelope.meets(heads=6, kv_heads=3, experts=5, active=2)
    assert "6 query heads share 3 key-value heads, so" in repr(shown)
    assert words(drawn(shown)).count("q") == 6 and words(drawn(shown)).count("k, v") == 3
    with pytest.raises(InputError, match="kv_heads = 3"):
        envelope.meets(heads=8, kv_heads=3)
