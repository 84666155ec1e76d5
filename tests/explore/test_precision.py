"""What a reader types is read as the library reads it; a sum stops where the formula says."""

from fractions import Fraction

import pytest
from charts import drawn, unreadable, words

from mathlib.explore.precision import FAMILIES
from mathlib.memory import bits, steps
from mathlib.show import says
from mathlib.show.experiments import find


def shown(name, **values):
    return find(name).run(values)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["0.1", "-65520", "1e-8", "448", "inf", "-0", "3e38"])
def test_any_number_is_drawn_in_every_family(text, family):
    html = shown("bits", text=text, family=family)
    assert not unreadable(html) and "Not possible" not in html
    assert all(f'<th scope="row">{dtype}' in html for dtype in FAMILIES[family])


def test_a_number_says_where_it_fits():
    assert "is exact in fp32, too large for fp16" in shown("bits", text="65520")
    assert "becomes 0 in fp16" in shown("bits", text="1e-8")
    assert "is exact in fp32." in shown("bits", text="2049")
    written = "".join(w for w in words(drawn(shown("bits"))) if w in ("0", "1"))
    assert f"{bits.encode(0.1, 'bf16'):016b}" in written


def test_what_is_typed_is_compared_and_not_its_double():
    html = shown("bits", text="0.1", family="64 bits")
    assert "exact in none of them" in html and f"{bits.encode(0.1, 'fp64'):064b}" in html
    off = says.percent(float(abs(Fraction(0.1) * 10 - 1))).partition(" ")[0]
    assert f"{off}\N{NO-BREAK SPACE}×" in html
    assert "is exact in fp64" in shown("bits", text="0.125", family="64 bits")


def test_a_scale_is_above_zero_and_a_whole_number_ends():
    family = "scales, whole numbers and nf4"
    html = shown("bits", text="-300", family=family)
    assert "no number in e8m0" in html and "too large" not in html and "-128" in html
    assert "too large for e8m0" in shown("bits", text="3e38", family=family)
    assert "int8 has no NaN" in shown("bits", text="nan", family=family)


def test_no_number_is_not_said_to_be_exact():
    assert "nan</b> is no number" in shown("bits", text="nan")
    assert "exact" not in shown("bits", text="nan").split("<svg")[0]


@pytest.mark.parametrize("text", ["", "e", "1e", "--1", "1e99", "1e-99"])
def test_what_is_no_number_is_refused_in_words(text):
    assert "expected" in shown("bits", text=text)


def test_the_sum_of_the_chapters_first_guess():
    html = shown("steps")
    assert "1,000 steps of 0.001 make 0.5" in html and "stands still from 0.5 on" in html
    assert "After step 383" in html
    assert "After step" not in shown("steps", rounding="stochastic")


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3", "fp32"])
def test_every_type_adds_up(dtype):
    html = shown("steps", dtype=dtype, start=10.0, step=0.1)
    last = steps.add_up(step=0.1, steps=1000, dtype=dtype, start=10.0)[-1]
    assert f"{last:.9g}" in html.replace(",", "") and not unreadable(html)
