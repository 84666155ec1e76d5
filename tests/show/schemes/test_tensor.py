"""A cut MLP, heads dealt out, and where ranks meet, as the plain files have them."""

import pytest
from charts import drawn, said, words

from mathlib.checks import InputError
from mathlib.parallel.tensor import split_tensors
from mathlib.show.schemes import tensor


@pytest.mark.parametrize("ranks", [2, 3])
def test_each_rank_has_its_columns_and_rows(ranks):
    chart = drawn(tensor.mlp(ranks))
    assert f"Each of {ranks} ranks" in said(chart)
    assert words(chart).count("part of Y") == ranks


@pytest.mark.parametrize(("ranks", "keys"), [(4, 2), (2, 8), (4, 4)])
def test_heads_are_those_that_the_class_cuts(ranks, keys):
    told = said(drawn(tensor.heads(ranks, 8, keys)))
    for r in range(ranks):
        own = split_tensors.share(keys, r, ranks)
        assert f"rank {r}: {', '.join(map(str, own))}" in told


def test_a_degree_that_cuts_heads_is_refused():
    with pytest.raises(InputError, match="tensor"):
        tensor.heads(3, 8, 2)


def test_the_two_halves_of_an_all_reduce_stand_around_the_matmuls():
    written = words(drawn(tensor.meet()))
    gather, scatter = written.index("all-gather"), written.index("reduce-scatter")
    assert gather < scatter and "all-reduce" in written
