"""Numbers in words: short, with a unit."""

import pytest

from mathlib.show import says


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (says.size(16e9), "16 GB"),
        (says.size(1536), "1.54 kB"),
        (says.size(0), "0 byte"),
        (says.time(0.012), "12 ms"),
        (says.time(90), "1.5 min"),
        (says.flop(6e12), "6 TFLOP"),
        (says.count(175e9), "175B"),
        (says.rate(50e9), "50 GB/s"),
        (says.time(12e-6), "12 µs"),
        (says.flop(3.143e23), "3.14 × 10²³ FLOP"),
        (says.speed(312e12), "312 TFLOP/s"),
        (says.amount(1234.5, "steps"), "1,230 steps"),
        (says.amount(0.05, ""), "0.05"),
        (says.number(5.34e-7), "5.34 × 10⁻⁷"),
        (says.number(999.6), "1,000"),
        (says.number(float("inf")), "∞"),
        (says.cell(1.5), "1.50"),
        (says.cell(0.0), "0"),
        (says.cell(12345.6), "12,300"),
        (says.ratio(1.0004), "1.00"),
        (says.ratio(0.98432), "0.984"),
        (says.percent(0.00812), "0.81%"),
        (says.one("bytes"), "byte"),
        (says.short(1234567), "1.23457 × 10⁶"),
        (says.short(2500), "2,500"),
        (says.plain(999999), "999,999"),
        (says.plain(1e6), "10⁶"),
        (says.plain(2.0), "2"),
        (says.plain(-0.123456), "-0.123"),
    ],
)
def test_a_number_is_said_as_people_would(shown, wanted):
    assert shown == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3.140e+23 FLOP", "3.140 × 10²³ FLOP"),
        ("1e-07 or 5.3E4", "10⁻⁷ or 5.3E4"),
        ("12 us, 3 users", "12 µs, 3 users"),
        ("4,000 $", "$4,000"),
        ("a100-80gb and 2e", "a100-80gb and 2e"),
    ],
)
def test_text_with_numbers_is_typeset_and_names_are_left_alone(text, wanted):
    assert says.typeset(text) == wanted


def test_in_html_no_number_breaks_from_its_power_or_unit_and_nothing_else_changes():
    said = says.html("3.14e23 FLOP < 16 GB in 12 ms of 7 apples & 5e-2")
    nb = "\u00a0"
    assert said == (
        f"3.14{nb}×{nb}10<sup>23</sup>{nb}FLOP &lt; 16{nb}GB in 12{nb}ms of 7 apples &amp; "
        f"5{nb}×{nb}10<sup>−2</sup>"
    )


def test_points_of_a_column_stand_in_one_line_and_words_are_left_alone():
    wide = [len(cell.replace(",", "")) for cell in says.aligned(["1.50", "12", "1,234.5"])]
    cells = says.aligned(["1.50", "12", "1,234.5"])
    assert [len(c) - len(c.rstrip(says.FIGURE + says.POINT)) for c in cells] == [0, 3, 1]
    assert wide and says.aligned(["1.5", "16 GB"]) == ["1.5", "16 GB"] and says.aligned([]) == []
