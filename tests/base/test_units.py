"""Units at the edge: what goes in comes out again, and nothing but an InputError ever comes of odd
text.
"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mathlib import units
from mathlib.checks import InputError

KINDS = sorted(units.KINDS)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("80GB", "byte", 80e9),
        ("80 GiB", "byte", 80 * 2**30),
        ("512MiB", "byte", 2**29),
        ("1 kB", "byte", 1000),
        ("8bit", "byte", 1),
        ("400 Gbit/s", "byte/s", 50e9),
        ("400Gbps", "byte/s", 50e9),
        ("900 GB/s", "byte/s", 900e9),
        ("312 TFLOP/s", "FLOP/s", 312e12),
        ("312e12", "FLOP/s", 312e12),
        ("1.5 PFLOPS", "FLOP/s", 1.5e15),
        ("3640 PF/s-days", "FLOP", 3640 * 8.64e19),
        ("10 GFLOP", "FLOP", 10e9),
        ("3.14e23", "FLOP", 3.14e23),
        ("300B tokens", "token", 300e9),
        ("1.4T", "token", 1.4e12),
        ("32k", "token", 32_000),
        ("1,024", "token", 1024),
        ("175B", "parameter", 175e9),
        ("7 billion", "parameter", 7e9),
        ("124_439_808", "parameter", 124439808),
        ("34 days", "second", 34 * 86400),
        ("90", "second", 90),
        ("12h", "second", 43200),
        ("5us", "second", 5e-6),
    ],
)
def test_text_is_read(text, kind, value):
    assert units.parse("x", text, kind) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("80 GB", "FLOP"),
        ("80GB/s", "byte"),
        ("80 Gb", "byte"),
        ("312 TFLOP", "FLOP/s"),
        ("312 TFLOP/s", "FLOP"),
        ("3 parsecs", "second"),
        ("GB", "byte"),
        ("", "byte"),
        ("1 2", "token"),
        ("1e", "token"),
        ("nan", "byte"),
        ("inf", "byte"),
        ("1e400", "byte"),
        ("9" * 5000, "token"),
        ("--5", "token"),
        ("5 KB/day", "byte/s"),
        ("0x10", "token"),
    ],
)
def test_a_wrong_unit_is_refused_and_named(text, kind):
    with pytest.raises(InputError, match="^room = ") as refused:
        units.parse("room", text, kind)
    assert "expected" in str(refused.value)


def test_bits_are_an_eighth_and_binary_is_not_decimal():
    assert units.parse("x", "8 Gbit", "byte") == units.parse("x", "1 GB", "byte") == 1e9
    assert units.parse("x", "1 GiB", "byte") / units.parse("x", "1 GB", "byte") == 2**30 / 1e9


@given(st.text(max_size=30), st.sampled_from(KINDS))
@settings(max_examples=500)
def test_any_text_gives_a_finite_number_or_an_input_error(text, kind):
    try:
        value = units.parse("x", text, kind)
    except InputError:
        return
    assert math.isfinite(value)


@given(
    st.from_regex(r"\A[-+]?[0-9_,]{0,6}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,3})? ?[A-Za-z/-]{0,8}\Z"),
    st.sampled_from(KINDS),
)
@settings(max_examples=500)
def test_text_that_looks_like_a_number_neither(text, kind):
    test_any_text_gives_a_finite_number_or_an_input_error.hypothesis.inner_test(text, kind)


@given(st.one_of(st.integers(-(10**15), 10**15), st.floats(1e-6, 1e30)), st.sampled_from(KINDS))
def test_bare_numbers_are_base_units(value, kind):
    assert units.parse("x", value, kind) == value
    assert units.parse("x", repr(value), kind) == pytest.approx(value, rel=1e-15)


@given(st.floats(1e-9, 1e26), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=500)
def test_what_is_shown_can_be_read_again(value, kind, binary):
    """Four digits survive the way out and in, whatever unit was chosen."""
    if kind not in ("second", "FLOP") and value < 1:
        value += 1
    text = units.show(value, kind, binary)
    again = units.parse("x", text, kind)
    assert again == pytest.approx(value, rel=6e-4)


@given(st.integers(1, 10**30))
def test_pf_days_round_trip(flop):
    assert units.pf_days(flop) * units.PF_DAY == pytest.approx(flop, rel=1e-15)
    assert units.parse("x", "1 PF/s-day", "FLOP") == units.PF_DAY == 1e15 * 24 * 3600


def test_binary_is_never_called_decimal():
    assert (
        units.show(2**30, "byte", binary=True) == "1 GiB"
        and units.show(2**30, "byte") == "1.074 GB"
    )
    assert units.show(1.5e9, "byte/s") == "1.5 GB/s" and units.show(0, "byte") == "0 byte"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3.14e23, "FLOP", "3.140e+23 FLOP"),
        (312e12, "FLOP/s", "312 TFLOP/s"),
        (1.7496e11, "parameter", "175B"),
        (86400 * 34.7, "second", "34.7 days"),
        (86400 * 730, "second", "730 days"),
        (86400 * 731, "second", "2.001 years"),
        (86400 * 365.25 * 12, "second", "12 years"),
        (999.99e9, "byte", "1 TB"),
        (-3.2e9, "byte", "-3.2 GB"),
        (0.5, "token", "0.5"),
    ],
)
def test_numbers_for_people(value, kind, text):
    assert units.show(value, kind) == text


def test_a_kind_that_is_none_is_refused():
    for call in (lambda: units.parse("x", "1", "bytes"), lambda: units.show(1, "bytes")):
        with pytest.raises(InputError, match="did you mean byte"):
            call()
