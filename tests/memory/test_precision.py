"""Number types against Python's own floats, recipes against the widths of their parts."""

import struct
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import precision, states


def test_copies_and_scales_by_hand() -> None:
    def parts(name: str, **changes: str | int) -> dict[str, float]:
        return dict(precision.bytes_per_parameter(precision.recipe(name, **changes)).items())

    mixed = {"weights": 2, "gradients": 2, "master weights": 4}
    assert parts("mixed-adam") == {**mixed, "first moment": 4, "second moment": 4}
    adam = {"weights": 4, "gradients": 4, "first moment": 1, "second moment": 1}
    assert parts("adam-8bit", block=64) == {**adam, "scales": 2 * 4 / 64}
    assert parts("adam-8bit", block=0) == adam
    one = parts("adam-8bit", block=64, first_moment="fp32")
    assert one == {**adam, "first moment": 4, "scales": 4 / 64}
    assert "scales" not in parts("mixed-adam", block=64), "nothing is quantised"


def test_bits_of_scales_by_hand() -> None:
    assert precision.scale_bits(block=64) == 0.5
    assert precision.scale_bits(block=64, scale_bits=8) == 0.125
    assert precision.scale_bits(block=4, scale_bits=8, second_block=2) == 8 / 4 + 32 / 8
    assert precision.scale_bits(block=4, second_block=2, second_bits=16) == 32 / 4 + 16 / 8


def test_where_it_is_from_does_not_make_it_another() -> None:
    kind, kept = precision.number_type("bf16"), precision.recipe("mixed-adam")
    assert replace(kind, source="elsewhere") == kind != replace(kind, mantissa=8)
    assert replace(kept, source="elsewhere", used_by="nobody") == kept != replace(kept, block=8)


@pytest.mark.parametrize("limit", ["largest", "smallest_normal", "epsilon"])
def test_whole_numbers_have_no_floating_limits(limit: str) -> None:
    with pytest.raises(InputError, match=f"'int8': has no exponent, so no {limit}"):
        getattr(precision.number_type("int8"), limit)


def test_only_the_second_moment_may_be_factored() -> None:
    assert precision.recipe("mixed-adam", second_moment="factored").second_moment == "factored"
    with pytest.raises(InputError, match="first_moment = 'factored'"):
        precision.recipe("mixed-adam", first_moment="factored")


def test_types_with_a_top_of_their_own_by_hand() -> None:
    """2 exponent bits, bias 1, 1 mantissa bit: 3 is the last exponent, 1.5 the last mantissa."""
    small = precision.NumberType("small", sign=1, exponent=2, mantissa=1)
    assert (small.bits, small.bytes, small.largest) == (4, 0.5, 2.0 * 1.5)
    assert replace(small, top="all").largest == 4 * 1.5
    assert replace(small, top="number").largest == 4 * 1
    assert replace(small, bias=3, top="all").largest == 1.5
    assert (small.smallest_normal, replace(small, subnormals=False).smallest_normal) == (1, 0.5)
    assert small.epsilon == 0.5
    wide = replace(small, stored=8, block=4, scale="bf16")
    assert (wide.bits, wide.bytes) == (8, 1 + 2 / 4)
    assert type(replace(small, stored=8).bytes) is int


def every_value(exponent: int, mantissa: int, top: str, bias: int = 0) -> list[float]:
    """All finite values of a small floating type, decoded bit pattern by bit pattern."""
    values, bias, last = [], bias or 2 ** (exponent - 1) - 1, 2**exponent - 1
    for e in range(2**exponent):
        for m in range(2**mantissa):
            if e == last and (top == "special" or (top == "number" and m == 2**mantissa - 1)):
                continue
            scale = 2.0 ** (max(e, 1) - bias)
            values.append(scale * ((e > 0) + m / 2**mantissa))
    return values


@pytest.mark.parametrize(
    "name",
    [
        *("fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"),
        *("fp6_e2m3", "fp6_e3m2", "fp4_e2m1"),
    ],
)
def test_limits_agree_with_every_bit_pattern(name: str) -> None:
    kind = precision.number_type(name)
    values = sorted(every_value(kind.exponent, kind.mantissa, kind.top, kind.bias))
    assert kind.largest == values[-1]
    assert kind.epsilon == values[values.index(1.0) + 1] - 1.0
    assert kind.smallest_normal == values[2**kind.mantissa], (
        "the first value after zero and the subnormals"
    )


@pytest.mark.parametrize(("name", "code"), [("fp16", "<e"), ("fp32", "<f")])
def test_python_packs_the_same_limits(name: str, code: str) -> None:
    kind = precision.number_type(name)
    assert struct.calcsize(code) == kind.bytes
    assert struct.unpack(code, struct.pack(code, kind.largest))[0] == kind.largest
    with pytest.raises(OverflowError):
        struct.pack(code, kind.largest * 2)


def test_fp64_is_pythons_own_float() -> None:
    kind, own = precision.number_type("fp64"), sys.float_info
    assert (kind.largest, kind.smallest_normal, kind.epsilon) == (own.max, own.min, own.epsilon)


def test_bfloat16_has_the_range_of_fp32_and_fp16_has_not() -> None:
    bf16, fp16, fp32 = map(precision.number_type, ("bf16", "fp16", "fp32"))
    assert (bf16.exponent, fp32.exponent, fp16.exponent) == (8, 8, 5)
    assert bf16.smallest_normal == fp32.smallest_normal < fp16.smallest_normal
    assert bf16.epsilon > fp16.epsilon > fp32.epsilon


def test_four_bits_are_half_a_byte() -> None:
    widths = {
        name: precision.bytes_of(name) for name in ("nf4", "int4", "fp4_e2m1", "fp8_e4m3", "bf16")
    }
    assert widths == {"nf4": 0.5, "int4": 0.5, "fp4_e2m1": 0.5, "fp8_e4m3": 1, "bf16": 2}


def test_printed_limits_of_the_narrow_types() -> None:
    """OCP MX 1.0, Tables 2 to 7; for fnuz the values of PyTorch's torch.finfo."""
    largest = {
        name: precision.number_type(name).largest
        for name in specs.table("types")
        if precision.number_type(name).exponent
    }
    printed = {"fp4_e2m1": 6, "fp6_e2m3": 7.5, "fp6_e3m2": 28, "fp8_e4m3": 448, "fp8_e5m2": 57344}
    printed |= {"fp8_e4m3fnuz": 240, "fp8_e5m2fnuz": 57344, "e8m0": 2.0**127}
    assert {name: largest[name] for name in printed} == printed
    scale = precision.number_type("e8m0")
    assert (scale.smallest_normal, scale.bytes, scale.epsilon) == (2.0**-127, 1, 1)


def test_a_block_pays_for_its_scale() -> None:
    widths = {name: 8 * precision.bytes_of(name) for name in ("mxfp4", "mxfp6", "mxfp8", "nvfp4")}
    assert widths == {"mxfp4": 4.25, "mxfp6": 6.25, "mxfp8": 8.25, "nvfp4": 4.5}
    assert precision.number_type("mxfp4").largest == 6, "of the elements, in units of the scale"


def test_scales_of_adapters_have_a_type() -> None:
    own = states.adapters(1e9, 1e6, base="mxfp4")["frozen weights"]
    by_hand = states.adapters(1e9, 1e6, base="fp4_e2m1", block=32, scale="e8m0")
    assert own == by_hand.amount("frozen weights") + by_hand.amount("scales")
    fp32 = states.adapters(1e9, 1e6, base="fp4_e2m1", block=32)
    assert fp32.amount("scales") == 4 * by_hand.amount("scales")
    with pytest.raises(InputError, match="block = 32: mxfp4 has its own scales"):
        states.adapters(1e9, 1e6, base="mxfp4", block=32)


def test_tf32_is_a_mode_of_the_multiplier_not_of_memory() -> None:
    assert precision.bytes_of("tf32") == 4
    assert precision.number_type("tf32").epsilon == precision.number_type("fp16").epsilon


TOTALS = {
    "mixed-muon": 2 + 2 + 4 + 4,  # of a matrix; tests/memory/test_matrix_states.py has the rest
    "sgd": 8,
    "sgd-momentum": 12,
    "adam-fp32": 16,
    "adam-fp32-kept": 12,
    "adam-bf16": 8,
    "adam-bf16-weights": 10,
    "mixed-adam": 16,
    "mixed-adam-fp32-gradients": 18,
    "mixed-adam-both-gradients": 20,
    "mixed-adam-gradient-copies": 20,
    "mixed-lion": 12,
    "inference": 2,
}


@pytest.mark.parametrize("name", TOTALS)
def test_bytes_per_parameter(name: str) -> None:
    assert precision.bytes_per_parameter(name).total == TOTALS[name]


def test_every_recipe_is_tested_and_says_who_uses_it() -> None:
    assert set(precision.names()) == set(TOTALS) | {"adam-8bit", "mixed-adam-8bit", "adafactor"}
    for name in precision.names():
        recipe = precision.recipe(name)
        assert recipe.used_by and recipe.source, name


@given(st.integers(1, 10**6))
def test_block_scales_cost_four_bytes_a_block_and_moment(block: int) -> None:
    parts = precision.bytes_per_parameter(precision.recipe("adam-8bit", block=block))
    assert parts["scales"] == 2 * 4 / block
    assert parts.total == pytest.approx(4 + 4 + 1 + 1 + 8 / block)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_adafactor_keeps_a_row_and_a_column(rows: int, columns: int) -> None:
    variance = precision.bytes_per_parameter("adafactor", shapes=[(rows, columns)])["second moment"]
    assert variance == pytest.approx(4 * (rows + columns) / (rows * columns))


def test_adafactor_over_several_weights() -> None:
    kept = precision.factored_bytes([(4, 6), (10,), (3, 4, 5)]) * (24 + 10 + 60)
    assert kept == pytest.approx(4 * ((4 + 6) + 10 + 3 * (4 + 5))), (
        "a stack of matrices is factored one by one"
    )


@given(st.integers(1, 10**5), st.integers(1, 64), st.integers(1, 10**4))
def test_double_quantisation_pays_when_its_blocks_are_not_tiny(
    block: int, bits: int, second: int
) -> None:
    once = precision.scale_bits(block=block, scale_bits=32)
    twice = precision.scale_bits(block=block, scale_bits=bits, second_block=second)
    assert (twice < once) == (bits + 32 / second < 32)


def test_changed_recipes() -> None:
    changed = precision.recipe("mixed-adam", weights="bf16", gradients="")
    assert precision.bytes_per_parameter(changed).total == 14
    assert precision.recipe(changed) is changed
    assert specs.table("recipes")["mixed-adam"]["weights"] == "fp16", "the table stays as it is"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: precision.number_type("fp31"), "dtype = 'fp31': did you mean"),
        (
            lambda: precision.bytes_per_parameter("mixed-adm"),
            "recipe = 'mixed-adm': did you mean mixed-adam",
        ),
        (lambda: precision.recipe("mixed-adam", weights="half"), "weights = 'half'"),
        (lambda: precision.recipe("mixed-adam", weight="bf16"), "did you mean weights"),
        (lambda: precision.recipe("mixed-adam-8bit", block=-1), "block = -1"),
        (lambda: precision.bytes_per_parameter("adafactor"), "shapes = ()"),
        (lambda: precision.factored_bytes([(4, 0)]), "shapes = 0"),
        (lambda: precision.scale_bits(block=0), "block = 0"),
        (lambda: precision.number_type("int8").largest, "int8"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
