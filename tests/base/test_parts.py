"""A sum keeps its parts: the total is their sum, and scaling, tables and JSON agree with it."""

import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.parts import Parts, exact_sum

NAMES = st.text("abcdefgh ", min_size=1, max_size=8)
TREES = st.recursive(
    st.integers(0, 10**15),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(
        lambda d: Parts("t", "byte", d)
    ),
    max_leaves=12,
).filter(lambda tree: isinstance(tree, Parts))


def leaves(part):
    return (
        [n for inner in part.values() for n in leaves(inner)] if isinstance(part, Parts) else [part]
    )


@given(TREES)
def test_the_total_is_the_sum_of_the_leaves(parts):
    assert parts.total == sum(leaves(parts)) and isinstance(parts.total, int)
    assert sum(n for depth, _, n in parts.rows() if depth == 0) == parts.total


@given(TREES, st.integers(1, 1000))
def test_scaling_scales_every_part(parts, factor):
    scaled = parts.scaled(factor)
    assert leaves(scaled) == [n * factor for n in leaves(parts)] and scaled.kind == parts.kind


@given(TREES)
def test_the_dictionary_adds_up_and_is_json(parts):
    def added(one):
        return sum(map(added, one["parts"].values())) if isinstance(one, dict) else one

    data = json.loads(json.dumps(parts.as_dict()))
    assert added(data) == data["total"] == parts.total and data["unit"] == "byte"


@given(TREES.filter(lambda parts: parts.total > 0))
def test_shares_add_up_to_one_and_the_table_names_every_part(parts):
    assert sum(map(parts.share, parts)) == pytest.approx(1)
    lines = str(parts).splitlines()
    assert len(lines) == 2 + len(list(parts.rows())) and lines[-1].split()[0] == "total"
    with mock.patch("mathlib.parts.renderer", None):  # the table, not the picture of mathlib.show
        assert parts._repr_html_().count("<tr>") == 1 + len(list(parts.rows()))


def test_a_part_that_is_not_there_is_named_with_those_that_are():
    parts = Parts("memory", "byte", {"weights": 2, "gradients": 2})
    with pytest.raises(
        KeyError, match="'weightz' is no part of 'memory'; it has weights, gradients"
    ):
        parts["weightz"]


def test_parts_of_nothing():
    assert Parts("none", "FLOP", {}).total == 0 and "0 FLOP" in str(Parts("none", "FLOP", {}))


def test_a_kind_is_a_unit():
    with pytest.raises(InputError, match="kind = 'weights'"):
        Parts("weights", "weights", {"weights": 1})


def test_a_sum_of_fractions_is_rounded_once_under_every_python():
    assert Parts("t", "second", {str(i): 0.1 for i in range(10)}).total == 1.0
    assert exact_sum([2**60, 1]) == 2**60 + 1 and isinstance(exact_sum([1, 2]), int)
    assert exact_sum([1e16, 1.0, 1.0]) == 10000000000000002
