"""Predict first: the answer waits, and a guess is judged fairly."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.show import predict
from mathlib.show.prediction import guessed, judge


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        (10, "exactly"),
        (10.5, "1.05 times the measured value, close"),
        (9, "0.90 times the measured value, close"),
        (20, "2.00 times the measured value, too high"),
        (1, "too low"),
        (-1, "measured: 10 GB"),
    ],
)
def test_a_guess_is_judged_fairly(guess, said):
    assert said in judge(guess, 10, "GB")


def test_a_count_or_the_third_of_several_is_told_by_how_many():
    assert judge(3, 2, "") == "You said 3: 1 too high."
    assert judge(1, 4, "") == "You said 1: 3 too low."
    assert "1.50 times" in judge(3, 2, "GB") and "1.25 times" in judge(2.5, 2, "")
    assert "1.10 times" in judge(11, 10, "")
    assert "20.8 times" in judge(27, 1.3, "") and "0.002 times" in judge(2, 1000, "")


def test_a_percent_stands_at_its_number_and_may_be_typed():
    assert judge(-5, 2, "%") == "You said −5%; measured: 2%."
    asked = predict("How much?", measured=14, unit="%")
    assert "<dd>14%</dd>" in asked._repr_html_()
    _, line, answer = asked.widget().children
    line.children[0].value = "14 %"
    line.children[1].click()
    assert "exactly" in answer.value


def test_a_guess_takes_the_unit_of_the_question_and_no_other():
    for typed in ("5 million FLOP", "5", "5.0millionFLOP", "+5e0"):
        assert guessed(typed, "million FLOP") == 5
    assert guessed("$1,500", "$") == 1500 and guessed("−2,5", "") == -2.5
    assert guessed("1,234,567.5", "") == 1234567.5 and guessed("3e9 GB", "GB") == 3e9
    for typed in ("5%", "5 FLOP", "many", "", "nan", "inf", "1e999", "1,5,2", "1_000", "٣"):
        with pytest.raises(InputError, match=r"^Type a number, .*, alone or with million FLOP\.$"):
            guessed(typed, "million FLOP")
    with pytest.raises(InputError, match=r"3e9, alone\.$"):
        guessed("5%", "")


def test_a_number_too_small_or_large_to_write_out_is_a_power_of_ten():
    assert judge(1e-300, 2e6, "GB").endswith(
        "10⁻³⁰⁰ GB: 5 × 10⁻³⁰⁷ times the measured value, too low."
    )
    assert "10³⁰⁰ times" in judge(1e300, 1, "GB")


def test_a_guess_at_nothing_is_no_division():
    assert judge(5, 0, "") == "You said 5; measured: 0."
    assert "exactly" in judge(0, 0, "GB")


def test_the_answer_is_folded_away_until_asked_for():
    html = predict(
        "How much?", measured=3, predicted=3.5, unit="GB", explanation="Because <so>."
    )._repr_html_()
    before, after = html.split("<details>")
    assert "3.5" not in before.split("aria-label")[1]
    assert "3.5\u00a0GB" in after and "Because &lt;so&gt;." in after
    with pytest.raises(InputError, match="measured = nan"):
        predict("How much?", measured=math.nan)


def test_without_a_prediction_only_the_measurement_is_shown():
    html = predict("How much?", measured=3, unit="GB")._repr_html_()
    assert "<dt>measured</dt><dd>3\u00a0GB</dd>" in html and "<dt>predicted" not in html
    both = predict("How much?", measured=3, predicted=4, unit="GB")._repr_html_()
    assert both.index("<dt>predicted</dt><dd>4\u00a0GB") < both.index(
        "<dt>measured</dt><dd>3\u00a0GB"
    )


def test_a_typed_guess_is_answered_and_a_word_is_asked_again():
    question, line, answer = predict("How much?", measured=3000, unit="GB").widget().children
    box, button = line.children
    assert "How much?" in question.value and not answer.value
    box.value = "much"
    button.click()
    assert answer.value.startswith("Type a number")
    box.value = "6,000"
    button.click()
    assert (
        "2.00 times the measured value, too high" in answer.value
        and "3,000\u00a0GB" in answer.value
    )


def test_what_nothing_ran_is_called_computed():
    asked = predict("How much?", measured=10, unit="GB", word="computed")
    assert "<dt>computed</dt>" in asked._repr_html_() and "measured</dt>" not in asked._repr_html_()
    assert "2.00 times the computed value" in judge(20, 10, "GB", "computed")
