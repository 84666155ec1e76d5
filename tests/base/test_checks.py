"""What an argument may be: every refusal is an InputError that names the argument, whichever
function is called.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import checks
from mathlib.checks import InputError

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none(), st.fractions()
)
BORDERS = [checks.positive, checks.non_negative, checks.fraction, checks.whole]


@given(st.sampled_from(BORDERS), NUMBERS)
def test_a_check_returns_the_number_or_names_it(check, value):
    try:
        found = check("speed", value)
    except InputError as refused:
        assert "speed" in str(refused)
    else:
        assert (
            found == pytest.approx(value)
            and type(found) in (int, float)
            and not isinstance(value, bool)
        )
        assert abs(found) <= checks.LARGEST


@given(st.floats(allow_nan=False, allow_infinity=False, max_value=0, exclude_max=True))
def test_no_check_takes_a_negative(value):
    for check in BORDERS:
        with pytest.raises(InputError, match="speed"):
            check("speed", value)


def test_zero_is_a_number_of_things_only_where_it_is_asked_for():
    assert checks.non_negative("n", 0) == 0 and checks.whole("n", 0, least=0) == 0
    for check in (checks.positive, checks.fraction, checks.whole):
        with pytest.raises(InputError, match="^n = 0: "):
            check("n", 0)


def test_a_count_is_whole():
    assert checks.whole("layers", 2e9) == 2_000_000_000 and type(checks.whole("layers", 2e9)) is int
    with pytest.raises(InputError, match=r"^layers = 2.5: expected a whole number, 1 or greater$"):
        checks.whole("layers", 2.5)


def test_numpy_numbers_become_pythons_and_cannot_overflow():
    assert (
        type(checks.whole("n", np.int64(7))) is int
        and type(checks.positive("n", np.float32(0.5))) is float
    )
    assert checks.whole("n", np.int64(2**62)) * 4 == 2**64
    assert checks.positive("n", Fraction(1, 4)) == 0.25


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e37])
def test_what_would_overflow_is_refused_in_one_short_line(value):
    for check in BORDERS:
        with pytest.raises(InputError, match="speed") as refused:
            check("speed", value)
        assert len(str(refused.value)) < 200


def test_a_near_miss_is_named():
    with pytest.raises(InputError, match="did you mean ring"):
        checks.one_of("algorithm", "rign", ["ring", "tree"])
    with pytest.raises(InputError, match="expected one of ring, tree"):
        checks.one_of("algorithm", "xyz", ["ring", "tree"])
    with pytest.raises(InputError, match=r"\(90 in all\)"):
        checks.one_of("model", "?", [f"m{i}" for i in range(90)])
    with pytest.raises(InputError):
        checks.one_of("zero", True, (0, 1, 2, 3))


@given(st.integers(1, 60), st.integers(1, 2000))
def test_a_degree_divides_or_the_accepted_ones_are_listed(degree, whole):
    try:
        assert whole % checks.divides("tensor", degree, "heads", whole) == 0
    except InputError as refused:
        assert (
            whole % degree
            and f"tensor = {degree}" in str(refused)
            and "accepted: 1" in str(refused)
        )


@pytest.mark.parametrize(
    ("things", "group", "groups"), [(8, 4, 2), (9, 4, 3), (1, 4, 1), (0, 4, 0)]
)
def test_groups_that_hold_all_things(things, group, groups):
    assert checks.ceil_div(things, group) == groups


def test_every_degree_that_divides():
    assert [checks.divisors(n) for n in (1, 7, 12)] == [[1], [1, 7], [1, 2, 3, 4, 6, 12]]
