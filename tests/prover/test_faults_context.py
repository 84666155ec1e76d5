"""Faults of context are caught, and named where they are first seen."""

from proved import named_otherwise


def test_each_is_caught_and_named():
    assert not named_otherwise("context")
