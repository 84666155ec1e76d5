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
    assert str(table).endswith("Predicted and measured are equal, to the last FLOP.")
    assert "ratio" not in str(table), "a column of ones"


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
    for cell in ("2 GB", "2.1 GB", "1.05"):
        assert f">{cell}<".replace(" ", "\u00a0") in html and cell in str(table)
    said = "Told and run are at most 5% apart (accepted: 10%)."
    assert said in html and str(table).endswith(said)


def test_many_equal_rows_are_one_sentence_with_the_table_folded():
    pairs = {f"part {n}": (n, n) for n in range(5)}
    html = compare(pairs, tolerance=0, unit="bytes")._repr_html_()
    said = "Predicted and measured are equal in all 5 rows, to the last byte."
    assert html.startswith(f'<details class="mlx-compared"><summary>{said}</summary>')
    assert html.count("<tr>") == 6 and "ratio" not in html and "<caption>" not in html
    assert "<details" not in compare(pairs, tolerance=0.1)._repr_html_(), "ratios are to be seen"
    few = compare(a=(1, 1), b=(2, 2), tolerance=0, unit="bytes")._repr_html_()
    assert "<details" not in few and "equal in both rows, to the last byte.</caption>" in few


def test_agreement_that_is_rounding_alone_gets_no_digits_that_differ_between_machines():
    said = str(compare(x=(1.0, 1.0 + 3e-13), tolerance=1e-9)).splitlines()[-1]
    assert said == "Predicted and measured are less than 0.01% apart (accepted: 10⁻⁷%)."
