"""What a reader types is read as the library reads it; a sum stops where the formula says."""

from fractions import Fraction

import pytest
from charts import drawn, unreadable, words

from mathlib.explore.precision import BLOCKS, FAMILIES
from mathlib.memory import bits, rounded_sums
from mathlib.memory.precision import number_type
from mathlib.show import says
from mathlib.show.experiments import find


def shown(name, **values):
    return find(name).run(values)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["0.1", "-65520", "1e-8", "448", "inf", "-0", "3e38"])
def test_any_number_is_drawn_in_every_family(text, family):
    html = shown("bits", text=text, family=family)
    if family in BLOCKS and text == "inf":
        assert "a block needs finite numbers" in html
        return
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


@pytest.mark.parametrize("family", BLOCKS)
@pytest.mark.parametrize("text", ["0.1", "-7", "0.001", "0", "6e4"])
def test_a_block_shows_the_bits_of_its_scale_and_of_the_element(text, family):
    html = shown("bits", text=text, family=family)
    chart, value = drawn(html), float(text)
    wanted, becomes = "", []
    for dtype in FAMILIES[family]:
        kind = number_type(dtype)
        found = bits.block([value, max(abs(value), BLOCKS[family])], dtype)
        scale = bits.encode(found.scale, kind.scale)
        wanted += f"{scale:08b}" + f"{found.patterns[0]:0{1 + kind.exponent + kind.mantissa}b}"
        becomes.append(f"{dtype}: {found.scale * bits.decode(found.patterns[0], dtype):.9g}")
    assert "".join(w for w in words(chart) if w in ("0", "1")) == wanted
    assert [w for w in words(chart) if w.startswith(FAMILIES[family])] == becomes
    assert not unreadable(html)


def test_a_block_says_what_a_smaller_neighbour_loses():
    one, hundred = BLOCKS
    html = shown("bits", text="0.1", family=hundred)
    assert "in a block whose largest number is 100 is exact in none of them" in html
    assert "becomes 0 in mxfp6, mxfp4 and nvfp4" in html
    html = shown("bits", text="-7", family=one)
    assert "as the largest number of its block is exact in mxfp8 and mxfp6." in html
    assert "becomes 0" not in html


def test_every_type_that_values_are_rounded_to_is_in_a_family():
    there = {dtype for types in FAMILIES.values() for dtype in types}
    asked = "fp64 fp32 tf32 fp16 bf16 fp8_e4m3 fp8_e5m2 fp8_e4m3fnuz fp8_e5m2fnuz e8m0 fp6_e2m3"
    asked += " fp6_e3m2 fp4_e2m1 nf4 int8 int4 mxfp8 mxfp6 mxfp4 nvfp4"
    assert there == set(asked.split())


def test_the_sum_of_the_chapters_first_guess():
    html = shown("steps")
    assert "1,000 steps of 0.001 make 0.5" in html and "stands still from 0.5 on" in html
    assert "After step 383" in html
    assert "After step" not in shown("steps", rounding="stochastic")


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3", "fp32"])
def test_every_type_adds_up(dtype):
    html = shown("steps", dtype=dtype, start=10.0, step=0.1)
    last = rounded_sums.add_up(step=0.1, steps=1000, dtype=dtype, start=10.0)[-1]
    assert f"{last:.9g}" in html.replace(",", "") and not unreadable(html)
