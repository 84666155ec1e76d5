"""Owners of whole tensors: who gets which, and what is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.traffic import comm, owners

sizes = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


@given(sizes, st.integers(1, 9))
def test_every_tensor_has_one_owner_and_none_has_much_more(some, ranks):
    dealt = owners.deal(some, ranks)
    assert sorted(i for of in dealt for i in of) == list(range(len(some))) and len(dealt) == ranks
    fullest = max(sum(some[i] for i in of) for of in dealt)
    assert fullest <= sum(some) / ranks + max(some)


@given(sizes, st.integers(1, 9))
def test_bytes_sent_are_on_average_an_all_reduce_s(some, ranks):
    sent = owners.sent_by_owners(some, ranks)
    whole = comm.sent("all-reduce", payload=sum(some), ranks=ranks)
    assert sum(sent) / ranks == pytest.approx(whole)
    assert owners.by_way("owners", payload=sum(some), ranks=ranks).total == pytest.approx(whole)


def test_shards_that_end_inside_matrices_cost_a_gather_or_two():
    how = {"payload": 8e9, "ranks": 8}
    total = {way: owners.by_way(way, **how).total for way in owners.WAYS}
    assert total == {
        "owners": 14e9,
        "repeated": 14e9,
        "dealt": 21e9,
        "flat, repeated": 14e9,
        "flat, dealt": 21e9,
    }
    assert owners.by_way("flat, dealt", **how, momentum=2).total == 28e9
    assert owners.by_way("owners", **how, momentum=2).total == total["owners"]
    with pytest.raises(InputError, match="way = 'shared'"):
        owners.by_way("shared", **how)
