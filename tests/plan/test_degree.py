"""The choice of degree: the page's advice, followed for the page's own models."""

import pytest

from mathlib.checks import InputError
from mathlib.memory import zero_rank
from mathlib.plan import degree
from mathlib.specs import Layout, Model

SMALL = Model("small", layers=4, width=64, heads=4, vocab=250, context=32, dropout=False)
HOW = {"recipe": "mixed-adam", "keep_half": True}  # SageMaker's library builds on DeepSpeed's


def needed(n: int, degree: int, b: int, **options) -> float:
    zero = 3 if degree > 1 else 0
    layout = Layout(data=n, shard=degree, zero=zero, micro_batch=b)
    return zero_rank.peak(SMALL, layout, **HOW, **options).total


def test_the_smallest_degree_then_the_largest_batch():
    room = needed(12, 3, 2)
    found = degree.choose(SMALL, Layout(data=12), room, **HOW)
    assert found and found.layout.shard == 3 and found.layout.micro_batch == 2
    assert [one.layout.shard for one in found.tries] == [1, 2, 3], "divisors, and no further"
    assert not any(one.verdict for one in found.tries[:-1])
    assert found.refused.layout.micro_batch == 3 and not found.refused.verdict
    assert "degree 2, batch 1: does not fit" in str(found) and "degree 3, batch 2: fits" in str(
        found
    )


def test_a_batch_that_is_wanted_raises_the_degree():
    room = needed(12, 3, 2)
    found = degree.choose(SMALL, Layout(data=12), room, micro_batch=3, **HOW)
    assert found.layout.shard > 3 and found.layout.micro_batch >= 3


def test_every_batch_up_to_the_largest_fits_and_no_larger_one():
    for b in (1, 2, 5, 6, 9):
        room = needed(4, 2, b) + 1
        found = degree.choose(SMALL, Layout(data=4), room, **HOW)
        if found.layout.shard == 2:
            assert found.layout.micro_batch == b
    assert degree.choose(SMALL, Layout(data=4), 1e15, most=7, **HOW).layout.micro_batch == 7


def test_where_nothing_fits_every_degree_has_its_reason():
    found = degree.choose(SMALL, Layout(data=6), 1e4, **HOW)
    assert not found and [one.layout.shard for one in found.tries] == [1, 2, 3, 6]
    assert all("does not fit" in str(one) for one in found.tries)
    with pytest.raises(InputError, match="no degree fits"):
        _ = found.layout
