"""Prediction beside measurement: agreement shows a table, anything else raises."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.show import compare
from mathlib.show.comparison import Disagreement


def test_comparison_raises_beyond_its_tolerance_and_names_the_row():
    with pytest.raises(Disagreement, match="^bytes sent: "):
        compare(bytes_sent=(100, 103), flop=(5, 5), tolerance=0.02)
    assert compare(bytes_sent=(100, 102), tolerance=0.02).worst == pytest.approx(0.02)


def test_exact_comparison_refuses_one_unit_in_a_trillion_and_prints_every_digit():
    with pytest.raises(Disagreement):
        compare(flop=(10**12, 10**12 + 1), tolerance=0)
    table = compare(flop=(1234567890123, 1234567890123), tolerance=0, unit="FLOP")
    assert "predicted, FLOP" in str(table) and "1,234,567,890,123" in str(table)
    assert str(table).splitlines()[1].split()[-1] == "1"


@pytest.mark.parametrize(
    "pair", [(1, math.nan), (math.inf, math.inf), (1, None), (1,), 3, (True, True)]
)
def test_comparison_refuses_what_is_no_number(pair):
    with pytest.raises(InputError, match="flop"):
        compare(flop=pair, tolerance=0.5)


def test_nothing_measured_against_nothing_predicted_is_agreement():
    assert compare(sent=(0, 0), tolerance=0).worst == 0
    with pytest.raises(Disagreement):
        compare(sent=(0, 1), tolerance=0.9)
    with pytest.raises(InputError):
        compare(tolerance=0)


def test_a_negative_prediction_has_a_tolerance_too():
    assert compare(change=(-100, -101), tolerance=0.02).worst == pytest.approx(0.01)
    with pytest.raises(Disagreement):
        compare(change=(-100, 100), tolerance=0.02)


def test_the_table_is_the_same_in_both_forms_and_its_names_are_escaped():
    table = compare({"a < b": (2e9, 2.1e9)}, tolerance=0.1, unit="byte", columns=("told", "run"))
    html = table._repr_html_()
    assert "a &lt; b" in html and "<b>" not in html
    for cell in ("2 GB", "2.1 GB", "1.050000"):
        assert f">{cell}<" in html and cell in str(table)
    assert "Told and run (accepted: within 10%)" in html and "accepted: within 10%" in str(table)
