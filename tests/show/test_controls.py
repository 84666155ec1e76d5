"""Controls offer what they take, and refuse the rest."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.show.controls import Line, Named, Range, Text, Toggle, doubling
from mathlib.show.experiments import Experiment


def test_controls_refuse_what_they_do_not_offer():
    slider = Range("x", "X", 0.1, 1.0, 0.1, 0.3)
    assert slider.check(0.1 + 0.2) == 0.3 and slider.check(1) == 1.0
    for wrong in (0, 1.1, "0.3", True, math.nan):
        with pytest.raises(InputError, match="x = "):
            slider.check(wrong)
    with pytest.raises(InputError, match="n = 3"):
        doubling("n", "N", 1, 8, 4).check(3)
    with pytest.raises(InputError, match="t = 1"):
        Toggle("t", "T").check(1)


def test_a_line_takes_its_own_letters_and_no_others():
    line = Line("row", "Row", "ABa ", 6, "AB")
    assert line.check("BA aB") == "BA aB" and line.clean("xA-B9aaaaaaa") == "ABaaaa"
    for wrong in ("AX", "AAAAAAA", 3, None):
        with pytest.raises(InputError, match="row = "):
            line.check(wrong)
    html = Experiment("l", "L", (line,), lambda row: f"<p>{row}</p>").html({"row": "BB"})
    assert "<li>Row: <b>BB</b></li>" in html and "&quot;letters&quot;: &quot;ABa &quot;" in html


def test_of_many_names_the_likely_ones_are_answered_ahead():
    control = Named("m", "M", (("One", 1), ("Two", 2), ("Three", 3)), 1, likely=(1, 3))
    assert control.check(2) == 2 and control.show(3) == "Three" and control.touches() == [1, 3]
    assert control.spec()["kind"] == "named" and control.offers() == [1, 2, 3]
    with pytest.raises(InputError, match="m = 4"):
        control.check(4)


def test_a_whole_line_is_not_answered_letter_by_letter():
    line = Line("l", "L", "ab=1", 9, "", ("a=1",), whole=True, hint="b=1")
    assert line.touches() == ["a=1"] and line.show("") == "none"
    assert line.spec() | {"whole": True, "hint": "b=1"} == line.spec()
    assert "whole" not in Line("l", "L", "ab", 9, "a").spec()


def test_doubling_offers_every_power_between_its_ends_with_the_unit():
    control = doubling("n", "N", 4, 40, 8, "GB")
    assert control.slider and control.options == (
        ("4 GB", 4),
        ("8 GB", 8),
        ("16 GB", 16),
        ("32 GB", 32),
    )
    with pytest.raises(InputError, match="n = 5"):
        doubling("n", "N", 4, 40, 5)


def test_a_text_is_taken_as_it_is_up_to_its_length():
    text = Text("config", "Pasted", 6, "nothing yet")
    assert text.check("{ a }") == "{ a }" and text.offers() == [] and text.show("") == "none"
    for wrong in ("1234567", 3, None):
        with pytest.raises(InputError, match="at most 6"):
            text.check(wrong)
    assert Text("t", "T", 100).show("x" * 80) == "x" * 60 + " ..."
    html = Experiment("t", "T", (text,), lambda config: f"<p>{config}</p>").html({"config": "a"})
    assert "&quot;kind&quot;: &quot;text&quot;" in html and "nothing yet" in html


@pytest.mark.parametrize(
    ("unit", "value", "said"),
    [("$", 2, "$2"), ("$", 2.5, "$2.50"), ("%", 45, "45%"), ("ms", 100, "100 ms"), ("", 4, "4")],
)
def test_a_value_stands_with_its_unit_as_people_write_it(unit, value, said):
    assert Range("x", "X", 0, 200, 0.5, 2, unit).show(value) == said


def test_a_thousand_million_is_a_billion():
    def labels(*ends):
        return [label for label, _ in doubling("n", "N", *ends).options]

    assert labels(500, 8000, 500, "million") == [
        *("500 million", "1 billion", "2 billion", "4 billion", "8 billion")
    ]
    assert labels(512, 1024, 512, "billion") == ["512 billion", "1.02 trillion"]
    assert labels(4096, 8192, 8192, "MB") == ["4,096 MB", "8,192 MB"]


def test_what_one_key_makes_of_a_line_is_known_ahead():
    found = Line("row", "Row", "ABC", 4, "AB", ("CCCC", "ABCAB")).touches()
    for text in ("", "C", "A", "B", "CAB", "ACB", "ABC", "AB", "CCCC"):
        assert found.count(text) == 1, text
    assert "ABCAB" not in found and len(found) == len(set(found)), "longer than the line"
