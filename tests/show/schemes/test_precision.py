"""Bits as the library encodes them, gradients in the colour of what a type makes of them."""

import math

import pytest
from charts import boxes, drawn, said, unreadable, words

from mathlib.memory import bits
from mathlib.show.schemes import precision


@pytest.mark.parametrize("dtype", precision.TYPES)
def test_every_bit_is_shown_in_its_field(dtype):
    found = precision.pattern(-0.1, dtype)
    assert "".join(digit for _, digit in found) == f"{bits.encode(-0.1, dtype):b}"
    assert found[0] == ("sign", "1")
    chart = drawn(precision.layouts(-0.1, types=(dtype,)))
    digits = [w for w in words(chart) if w in ("0", "1")]
    assert "".join(digits) == "".join(digit for _, digit in found)
    assert "".join(digits) in said(chart)


@pytest.mark.parametrize("width", [360, 680])
def test_a_block_fits_the_page_and_names_its_scale(width):
    html = precision.drawn_in_blocks(width, -1e-3, 3e38, ("mxfp8", "mxfp6", "mxfp4", "nvfp4"))
    chart = drawn(html)
    assert not unreadable(html)
    assert "scale of 32: 2¹¹⁹" in words(chart) and "scale of 16: 448" in words(chart)
    assert "mxfp8: -0 = 11110110 (scale of 32: 2¹¹⁹) × 10000000 (element e4m3: -0)" in said(chart)


def test_zones_are_those_of_the_type():
    zones = [precision.zone(power) for power in (-14, -15, -25, -26)]
    assert zones == ["normal", *["subnormal, fewer bits"] * 2, "zero"]
    assert precision.zone(-100, "bf16") == "normal"


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_what_a_zone_calls_zero_is_rounded_to_zero(dtype):
    least = round(math.log2(bits.smallest(dtype)))
    for power in range(least - 3, least + 3):
        for number in (1.01 * 2.0**power, 1.99 * 2.0**power):
            becomes = bits.decode(bits.encode(number, dtype), dtype)
            assert (becomes == 0) == (precision.zone(power, dtype) == "zero")


def test_gradients_are_counted_by_what_becomes_of_them():
    chart = drawn(precision.gradients({"a": {-30: 0.25, -20: 0.5, -3: 0.25}}, caption="b."))
    assert "a: normal 25%, subnormal, fewer bits 50%, zero 25%" in said(chart)
    assert {"2^-30: 25.0%", "2^-20: 50.0%", "2^-3: 25.0%"} <= set(boxes(chart))


def test_a_step_updates_wide_weights_only_after_it_has_looked():
    written = words(drawn(precision.step()))
    assert {"copies", "loss × scale", "gradients / scale", "all finite?", "update"} <= set(written)


def test_several_numbers_stand_below_one_another():
    chart = drawn(precision.layouts(5.75, 1e30, types=("fp32",)))
    assert said(chart).count("fp32: ") == 2 and "10000001" in said(chart)


def test_a_line_has_every_number_of_a_type():
    assert precision.above_zero("fp4_e2m1") == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    chart = drawn(precision.lines(("fp4_e2m1", "nf4"), caption="c."))
    assert "fp4_e2m1: 8 numbers from 0 to 6" in said(chart) and "nf4: 9 numbers" in said(chart)


def test_the_edges_of_a_type_are_marked():
    chart = drawn(precision.gradients({"a": {-30: 0.5, -3: 0.5}}, caption="b."))
    assert {"2⁻³⁰", "2⁻²⁵", "2⁻¹⁴", "2⁻³"} <= set(words(chart))
