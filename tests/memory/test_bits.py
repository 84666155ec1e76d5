"""Numbers from their bits: equal to the processor's, to torch's and to ml_dtypes' own types."""

import math
import random
import struct

import ml_dtypes
import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.memory import bits
from mathlib.memory.precision import number_type

ML_DTYPES = {
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e4m3fnuz": "float8_e4m3fnuz",
    "fp8_e5m2fnuz": "float8_e5m2fnuz",
    "e8m0": "float8_e8m0fnu",
    "fp6_e2m3": "float6_e2m3fn",
    "fp6_e3m2": "float6_e3m2fn",
    "fp4_e2m1": "float4_e2m1fn",
}
TORCH = {
    "bf16": (torch.bfloat16, torch.uint16),
    "fp16": (torch.float16, torch.uint16),
    "fp8_e4m3": (torch.float8_e4m3fn, torch.uint8),
    "fp8_e5m2": (torch.float8_e5m2, torch.uint8),
    "fp8_e4m3fnuz": (torch.float8_e4m3fnuz, torch.uint8),
    "fp8_e5m2fnuz": (torch.float8_e5m2fnuz, torch.uint8),
    "e8m0": (torch.float8_e8m0fnu, torch.uint8),
}
STRUCT = {"fp16": "eH", "fp32": "fI", "fp64": "dQ"}


def same(a: float, b: float) -> bool:
    """Equal, zeros of one sign, or no number both."""
    return math.isnan(a) and math.isnan(b) or struct.pack("d", a) == struct.pack("d", b)


def tried(name: str) -> list[float]:
    """Numbers in an fp32: those of the type (of 2**16, some and both ends), what lies half way to
    the next, what lies a hair beside that; beyond the largest; nothing; and some from everywhere.
    """
    every = list(bits.patterns(name))
    some = every if len(every) <= 256 else [*every[:300], *every[32300:33100], *every[-300:]]
    numbers = sorted(x for n in some if math.isfinite(x := bits.decode(n, name)))
    half = [(a + b) / 2 for a, b in zip(numbers, numbers[1:], strict=False)]
    top = min(2.0 ** math.floor(math.log2(numbers[-1])) * 2, 2.0**123)
    half += [numbers[-1] + bits.spacing(numbers[-1], name) / 2, top, 16 * top]
    half = [x for x in half if abs(x) < 2.0**128]
    dice = random.Random(name)
    free = [dice.uniform(-2, 2) * 2.0 ** dice.randint(-130, 120) for _ in range(500)]
    every = numpy.array([*numbers, *half, *(-x for x in half), *free, 0.0, -0.0], numpy.float32)
    beside = [numpy.nextafter(every, numpy.float32(to)) for to in (-math.inf, math.inf)]
    return [float(x) for x in numpy.concatenate([every, *beside])]


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_pattern_is_the_number_that_ml_dtypes_makes_of_it(name):
    theirs = numpy.array(bits.patterns(name), numpy.uint16 if name == "bf16" else numpy.uint8)
    with numpy.errstate(invalid="ignore"):
        theirs = theirs.view(getattr(ml_dtypes, ML_DTYPES[name])).astype(float)
    ours = [bits.decode(n, name) for n in bits.patterns(name)]
    assert all(map(same, ours, theirs.tolist())) and len(ours) == 2 ** len(f"{len(ours) - 1:b}")


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_number_becomes_what_ml_dtypes_makes_of_it(name):
    given_ = tried(name)
    kind = getattr(ml_dtypes, ML_DTYPES[name])
    with numpy.errstate(all="ignore"):
        theirs = numpy.array(given_, numpy.float32).astype(kind).astype(float).tolist()
    differ = [
        (x, bits.rounded(x, name), their)
        for x, their in zip(given_, theirs, strict=True)
        if not same(bits.rounded(x, name), their)
        and not (name == "e8m0" and 2.0**-127 < x < 2.0**-126)
    ]
    assert not differ, differ[:5]


def test_torch_and_ml_dtypes_do_not_take_the_nearest_scale_at_the_smallest():
    """A subnormal of fp32 has no hidden one, and both round it as if it had."""
    x = 1.01 * 2.0**-127
    theirs = [
        torch.tensor(x).to(torch.float8_e8m0fnu).double().item(),
        float(numpy.float32(x).astype(ml_dtypes.float8_e8m0fnu)),
    ]
    assert theirs == [2.0**-126] * 2 and bits.rounded(x, "e8m0") == 2.0**-127


@pytest.mark.parametrize("name", TORCH)
def test_every_pattern_is_the_number_that_torch_makes_of_it(name):
    kind, unsigned = TORCH[name]
    theirs = torch.tensor(list(bits.patterns(name)), dtype=torch.int32).to(unsigned).view(kind)
    ours = (bits.decode(n, name) for n in bits.patterns(name))
    assert all(map(same, ours, theirs.double().tolist()))


def test_torch_keeps_what_is_too_large_for_e4m3_at_the_largest():
    """ml_dtypes makes NaN of it: two libraries, two rules; ours has both."""
    x = torch.tensor([464.0, 465.0, 1e9, -1e9])
    theirs = x.to(torch.float8_e4m3fn).tolist()
    rule = "largest" if theirs[2] == 448 else "special"
    assert all(
        same(bits.rounded(a, "fp8_e4m3", overflow=rule), b)
        for a, b in zip(x.tolist(), theirs, strict=True)
    )
    assert bits.rounded(465, "fp8_e4m3", overflow="largest") == 448
    assert math.isnan(bits.rounded(465, "fp8_e4m3")) and bits.rounded(464, "fp8_e4m3") == 448
    assert bits.rounded(61440, "fp8_e5m2") == math.inf
    assert bits.rounded(-1e9, "fp8_e5m2", overflow="largest") == -57344


@given(st.sampled_from(sorted(STRUCT)), st.floats(width=64))
def test_the_processor_agrees(name, x):
    letter, unsigned = STRUCT[name]
    try:
        packed = struct.pack(f"<{letter}", x)
    except OverflowError:
        assert abs(bits.rounded(x, name)) == math.inf
        return
    pattern = bits.encode(x, name)
    assert math.isnan(x) or struct.pack(f"<{unsigned}", pattern) == packed
    assert same(bits.decode(pattern, name), struct.unpack(f"<{letter}", packed)[0])


@pytest.mark.parametrize("name", [*ML_DTYPES, "fp16", "int8", "int4", "nf4", "mxfp6", "nvfp4"])
def test_a_number_of_the_type_comes_back_with_its_own_pattern(name):
    for n in bits.patterns(name):
        x = bits.decode(n, name)
        if not math.isnan(x):
            assert bits.encode(x, name) == n


def test_the_table_of_limits_says_what_the_bits_say():
    for name in [*ML_DTYPES, "fp16"]:
        kind = number_type(name)
        numbers = [bits.decode(n, name) for n in bits.patterns(name)]
        finite = [x for x in numbers if math.isfinite(x)]
        assert max(finite) == kind.largest and min(x for x in finite if x > 0) == bits.smallest(
            name
        )
        after = min(x for x in finite if x > 1)
        assert after - 1 == kind.epsilon == bits.spacing(1.0, name)


def test_what_is_half_of_the_smallest_is_nothing():
    for name in ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2"):
        least = bits.smallest(name)
        assert bits.rounded(least / 2, name) == 0 < bits.rounded(least / 2 * 1.001, name) == least
    assert bits.smallest("fp16") == 2.0**-24 and bits.smallest("bf16") == 2.0**-133
    assert bits.rounded(1e-30, "e8m0") > 0, "a scale is never nothing"


def test_tf32_is_fp32_with_the_mantissa_of_fp16():
    assert bits.rounded(1 + 2.0**-11, "tf32") == 1 and bits.rounded(1e38, "tf32") > 9.9e37
    assert bits.decode(bits.encode(3.14159, "tf32"), "tf32") == 3.140625


# The values of bitsandbytes' table, which were computed in fp32.
NF4 = [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.091050036, 0.0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]


def test_nf4_is_the_normal_distributions_quantiles():
    assert bits.quantiles() == pytest.approx(NF4, abs=5e-7)
    assert bits.rounded(0.12, "nf4") == pytest.approx(0.0795803, abs=1e-6)


@given(
    st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 64), min_size=1, max_size=32),
    st.sampled_from(["mxfp4", "mxfp6", "mxfp8", "nvfp4", "int8", "int4", "nf4"]),
)
def test_a_block_loses_no_more_than_its_coarsest_step(values, name):
    kept = bits.block(values, name)
    most = max(map(abs, values))
    # the largest relative step of the type, and a scale that is at most so far from right
    step = {"mxfp4": 1 / 3, "mxfp6": 1 / 7, "mxfp8": 1 / 7, "nvfp4": 1 / 4, "int8": 1 / 253}
    bound = {**step, "int4": 1 / 13, "nf4": 0.16}[name] * most + 2.0**-9 * (name == "nvfp4")
    if name == "nvfp4" and most > 448 * 6:
        return  # its tensor's scale comes before
    assert all(abs(a - b) <= bound * 1.001 for a, b in zip(kept.values, values, strict=True))


def test_a_scale_of_powers_of_two_can_cut_the_largest_off():
    """7 lies between 4 and 8, the scale is 1, and the largest of fp4 is 6."""
    assert bits.block([7.0, 1.0], "mxfp4") == (1.0, (7, 2), "mxfp4")
    assert bits.block([7.0, 1.0], "mxfp4").values == [6.0, 1.0]
    assert bits.block([6.0, 3.0], "nvfp4").values == [6.0, 3.0]
    assert bits.block([0.0, 0.0], "nvfp4").values == [0.0, 0.0]


def test_a_hair_below_a_power_of_two_the_scale_is_that_of_the_power_below():
    below = math.nextafter(8, 0)  # its log2 is rounded to 3
    assert bits.block([below], "mxfp4").scale == 1 and bits.block([8.0], "mxfp4").scale == 2
    assert bits.block([math.nextafter(1, 0)], "mxfp8").scale == 2.0**-9


def test_what_is_beyond_nf4_becomes_its_outermost_number():
    for value, nearest in ((3e38, 1), (-3e38, -1), (float("inf"), 1), (-1e20, -1)):
        assert bits.rounded(value, "nf4") == nearest
    with pytest.raises(InputError, match="no NaN"):
        bits.encode(float("nan"), "nf4")


def test_refusals():
    with pytest.raises(InputError, match="pattern = 16: expected less than 2\\*\\*4 for fp4_e2m1"):
        bits.decode(16, "fp4_e2m1")
    with pytest.raises(InputError, match="fp4_e2m1 has no NaN"):
        bits.encode(math.nan, "fp4_e2m1")
    with pytest.raises(InputError, match="int8 has no NaN"):
        bits.encode(math.nan, "int8")
    with pytest.raises(InputError, match="finite"):
        bits.block([1.0, math.inf], "mxfp8")
    for refuses in (bits.encode, bits.rounded, bits.spacing):
        with pytest.raises(InputError, match="value = '7': expected a number"):
            refuses("7", "bf16")
    with pytest.raises(InputError, match="spacing"):
        bits.spacing(1.0, "int8")
    assert bits.decode(bits.encode(1000, "int8"), "int8") == 127
    assert bits.decode(bits.encode(-1000, "int8"), "int8") == -128
    assert [bits.decode(n, "int4") for n in (0, 7, 8, 15)] == [0, 7, -8, -1]
