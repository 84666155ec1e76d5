"""Equations refuse numbers that do not satisfy them, and are well-formed."""

import xml.etree.ElementTree as ET

import pytest

from mathlib.checks import InputError
from mathlib.show.equation import equation


def test_an_equation_refuses_numbers_that_do_not_satisfy_it():
    with pytest.raises(InputError, match="gives 12"):
        equation("M = k * P", M=13, k=3, P=4)
    with pytest.raises(InputError, match="needs P"):
        equation("M = k * P", M=12, k=3)
    with pytest.raises(InputError, match="needs M"):
        equation("M = k * P", k=3, P=4)


@pytest.mark.parametrize(
    ("law", "holds"),
    [
        ("x = a * (b + c)", ">(</mo>"),
        ("x = a - (b + c)", ">(</mo>"),
        ("x = (a + b) / c", "<mfrac>"),
        ("x = (a + b) ** 2", "<msup>"),
        ("x = max(a, b) + c", "max"),
        ("x = -a + b * c", "&minus;"),
    ],
)
def test_equations_are_well_formed_and_keep_their_brackets(law, holds):
    numbers = {"a": 2, "b": 3, "c": 4}
    value = eval(law.split("=")[1], {"max": max}, numbers)
    used = {n: v for n, v in numbers.items() if n in law[3:].replace("max", "")}
    html = equation(law, x=value, **used)
    assert holds in html
    ET.fromstring(html.replace("&minus;", "-").replace("&sdot;", ".").replace("&nbsp;", " "))


@pytest.mark.parametrize("law", ["x = a + b + c", "x = a * b * c", "x = a + (b + c)"])
def test_brackets_that_change_nothing_are_left_out(law):
    numbers = {"a": 2, "b": 3, "c": 4}
    assert "(</mo>" not in equation(law, x=eval(law.split("=")[1], {}, numbers), **numbers)


def test_a_number_is_written_as_asked_and_checked_as_it_is():
    html = equation("M = k * P", M=(2e9, "2 GB"), k=2, P=(1e9, "a < b"))
    assert "2 GB" in html and "a &lt; b" in html
    with pytest.raises(InputError, match="M = "):
        equation("M = k * P", M=(3e9, "2 GB"), k=2, P=1e9)


def test_a_long_law_may_break_before_its_bracket_and_a_short_one_stays_whole():
    html = equation("x = a * b * c * d * (a + b * c + d)", x=128, **dict.fromkeys("abcd", 2))
    before, bracket = html.split('</math><math displaystyle="true">')
    assert before.endswith("<mo>&sdot;</mo>") and bracket.startswith("<mrow><mo stretchy")
    assert equation("x = a * (b + c)", x=8, a=2, b=2, c=2).count("<math") == 1


def test_greek_and_indices_are_typeset():
    html = equation("M = kappa * P_opt", M=6, kappa=2, P_opt=3)
    assert (
        "<mi>&kappa;</mi>" in html
        and '<msub><mi>P</mi><mi mathvariant="normal">opt</mi></msub>' in html
    )
    assert "<msub><mi>P</mi><mi>r</mi></msub>" in equation("M = 2 * P_r", M=6, P_r=3)


def test_an_exponent_stands_at_its_base_and_the_number_beneath_both():
    html = equation("A = h ** 2", A=9, h=3)
    assert "<msup><mi>h</mi><mrow><mn>2</mn></mrow></msup></mpadded><mtext>" in html


def test_brackets_are_as_high_as_what_they_hold_and_not_as_the_numbers_beneath():
    flat = equation("x = a * (b + c)", x=14, a=2, b=3, c=4)
    tall = equation("x = a * (b + 1 / c)", x=7, a=2, b=3, c=2)
    assert flat.count('stretchy="false"') == 2 and "mlx-tall" not in flat
    assert tall.count('stretchy="false" class="mlx-tall"') == 2
