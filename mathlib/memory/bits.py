"""Numbers from their bits, and bits from numbers: what a type can say, what becomes of the rest.

e exponent bits · m mantissa bits · E, M fields: the whole numbers in their bits
A pattern is a whole number whose bits are, from the left, sign, E and M. It stands for
2**(E - bias) (1 + M / 2**m); where E = 0, for a subnormal, 2**(1 - bias) M / 2**m. What the last
patterns are for differs from type to type, and whether there is a negative zero. A type without
exponent is a whole number in two's complement; nf4 looks its 16 values up.
"""

from collections.abc import Sequence
from functools import cache
from math import copysign, frexp, inf, isinf, isnan, ldexp, nan
from statistics import NormalDist
from typing import NamedTuple

from mathlib.checks import InputError, flag, listed, one_of, real, whole
from mathlib.memory.precision import NumberType, number_type

OVERFLOWS = ("special", "largest")
SCALES = ("e8m0", "fp8_e4m3", "bf16", "fp16", "fp32")


def patterns(dtype: str) -> range:
    """Every pattern of a type: 2**(1 + e + m) of them, with a sign.

    Chapter: precision
    """
    return range(2 ** _width(number_type(dtype)))


def decode(pattern: int, dtype: str) -> float:
    """The number that a pattern stands for: (-1)**sign 2**(E - bias) (1 + M / 2**m).

    Chapter: precision (eq-value)
    """
    kind = number_type(dtype)
    whole("pattern", pattern, least=0)
    if pattern >= 2 ** _width(kind):
        wanted = f"less than 2**{_width(kind)} for {dtype}"
        raise InputError(f"pattern = {pattern}: expected {wanted}")
    if dtype == "nf4":
        return quantiles()[pattern]
    if not kind.exponent:
        negative = pattern >> kind.mantissa if kind.sign else 0
        return pattern - 2 ** _width(kind) * negative
    magnitude = pattern & (2 ** (kind.exponent + kind.mantissa) - 1)
    sign = -1.0 if pattern != magnitude else 1.0
    if sign < 0 and magnitude == 0 and not kind.negative_zero:
        return nan
    if magnitude > _last(kind):
        infinite = magnitude == _last(kind) + 1 and _has_infinity(kind)
        return sign * inf if infinite else nan
    E, M = magnitude >> kind.mantissa, magnitude % 2**kind.mantissa
    if E == 0 and kind.subnormals:
        return sign * ldexp(M, 1 - kind._bias - kind.mantissa)
    return sign * ldexp(2**kind.mantissa + M, E - kind._bias - kind.mantissa)


def encode(value: float, dtype: str, *, overflow: str = "special") -> int:
    """The pattern of the nearest number of a type; of two as near, the one whose last
    bit is 0.

    `overflow`: what becomes of a number that rounds to more than the largest one:
    "special", infinity, where there is none NaN, and where there is none either the
    largest; or "largest", as the units that multiply fp8 do it. A whole number cannot
    be special.

    Chapter: precision
    """
    kind, value = number_type(dtype), real("value", value)
    one_of("overflow", overflow, OVERFLOWS)
    if dtype == "nf4" and not isnan(value):
        near = max(-1.0, min(value, 1.0))
        return min(patterns(dtype), key=lambda n: abs(decode(n, dtype) - near))
    if not kind.exponent:
        return _two_s_complement(value, kind)
    if isnan(value) or not kind.sign and value <= 0:
        return _nan(kind)
    magnitude = _last(kind) + 1 if isinf(value) else _nearest(abs(value), kind)
    if magnitude > _last(kind):
        magnitude = _over(kind) if overflow == "special" else _last(kind)
    negative = copysign(1, value) < 0 and (magnitude or kind.negative_zero)
    if magnitude > _last(kind) and not _has_infinity(kind):
        return _nan(kind)
    return magnitude + (2 ** (kind.exponent + kind.mantissa) if negative else 0)


def rounded(value: float, dtype: str, *, overflow: str = "special") -> float:
    """What is left of a number in a type: the value of its pattern.

    Chapter: precision
    """
    return decode(encode(value, dtype, overflow=overflow), dtype)


def spacing(value: float, dtype: str) -> float:
    """The step from a number's binade to the next number: 2**(floor(log2 x) - m), and never less
    than the smallest.

    Chapter: precision (eq-spacing)
    """
    kind = number_type(dtype)
    kind._floating("spacing")
    return ldexp(1, _quantum(abs(real("value", value)), kind))


def smallest(dtype: str) -> float:
    """The least positive number: 2**(1 - bias - m); half of it, and less, rounds to nothing.

    Chapter: precision (eq-smallest)
    """
    kind = number_type(dtype)
    kind._floating("smallest")
    return ldexp(1, _quantum(0.0, kind))


@cache
def quantiles() -> tuple[float, ...]:
    """The 16 numbers of nf4: quantiles of a normal distribution, 8 above zero and 7 below it, each
    side from the middle of the outermost interval inwards, over the largest (Dettmers et al. 2023).

    Chapter: precision
    """
    outermost = 1 - (1 / 30 + 1 / 32) / 2  # of 15 and of 16 intervals, half of one, averaged
    normal = NormalDist()

    def side(count: int) -> list[float]:
        step = (outermost - 0.5) / count
        return [normal.inv_cdf(outermost - step * i) for i in range(count)]

    above, below = side(8), side(7)
    every = sorted([*above, 0.0, *(-x for x in below)])
    return tuple(x / every[-1] for x in every)


@cache
def dynamic_map(*, signed: bool) -> tuple[float, ...]:
    """The 256 numbers of the dynamic map from -1, or 0, to 1: seven decades, each cut into equal
    intervals whose middles are the numbers, and a decade has twice as many as the one below it
    (Dettmers et al. 2022).

    Chapter: precision
    """
    half, sides = [], (1, -1) if flag("signed", signed) else (1,)
    for decade in range(7):
        count = 2**decade * (1 if signed else 2)
        half += [10.0 ** (decade - 6) * (0.1 + 0.9 * (i + 0.5) / count) for i in range(count)]
    return tuple(sorted([0.0, 1.0, *(side * x for side in sides for x in half)]))


@cache
def linear_map(*, signed: bool) -> tuple[float, ...]:
    """The numbers of an 8-bit map with equal steps: -127/127 to 127/127, or 0/255 to 255/255.

    Chapter: precision
    """
    steps = 127 if flag("signed", signed) else 255
    return tuple(i / steps for i in range(-127 if signed else 0, steps + 1))


class Block(NamedTuple):
    """Values that share a scale."""

    scale: float
    patterns: tuple[int, ...]
    dtype: str

    @property
    def values(self) -> list[float]:
        """What is left of the numbers."""
        return [self.scale * decode(pattern, self.dtype) for pattern in self.patterns]


def block(values: Sequence[float], dtype: str, *, scale: str | None = None) -> Block:
    """Numbers in a type whose values share a scale: the largest of them becomes the
    largest of the type, or comes near it.

    `scale`: the scale's type, by default the type's own, else fp32. A scale that is a
    power of two is 2**(floor(log2 of the largest) - that of the type's largest)
    (OCP MX 1.0, section 6.3); any other is the largest over the type's, rounded.

    Chapter: precision
    """
    kind = number_type(dtype)
    found = [real("values", value) for value in listed("values", values)]
    if not found or not all(abs(value) < inf for value in found):
        raise InputError(f"values = {values!r}: expected finite numbers")
    shared = kind.scale or "fp32" if scale is None else one_of("scale", scale, SCALES)
    most, top = max(map(abs, found)), decode(_top(kind), dtype)
    if number_type(shared).mantissa == 0:
        power = frexp(most)[1] - frexp(top)[1] if most else 0
        unit = rounded(ldexp(1, power), shared)
    else:
        unit = rounded(most / top, shared, overflow="largest")
    shares = [v / unit if unit else 0.0 for v in found]
    elements = (encode(share, dtype, overflow="largest") for share in shares)
    return Block(unit, tuple(elements), dtype)


def _width(kind: NumberType) -> int:
    return kind.sign + kind.exponent + kind.mantissa


def _top(kind: NumberType) -> int:
    """The pattern of the largest number; of a whole number the largest that has its opposite."""
    if kind.name == "nf4":
        return 15
    return _last(kind) if kind.exponent else 2**kind.mantissa - 1


def _last(kind: NumberType) -> int:
    """The last magnitude, E and M as one whole number, that is a finite number."""
    missing = {"special": 2**kind.mantissa, "number": 1, "all": 0}[kind.top]
    return 2 ** (kind.exponent + kind.mantissa) - 1 - missing


def _has_infinity(kind: NumberType) -> bool:
    return kind.top == "special" and kind.sign == 1


def _nan(kind: NumberType) -> int:
    """A pattern that is no number."""
    if not kind.negative_zero:
        return 2 ** (kind.exponent + kind.mantissa)
    if kind.top == "all":
        raise InputError(f"value: {kind.name} has no NaN; accepted: a number")
    return 2 ** (kind.exponent + kind.mantissa) - 1


def _over(kind: NumberType) -> int:
    """What becomes of a magnitude above the largest."""
    has_nan = kind.top != "all" or not kind.negative_zero
    return _last(kind) + 1 if has_nan else _last(kind)


def _quantum(size: float, kind: NumberType) -> int:
    """The power of two of which a number of this size is a multiple."""
    least = (1 if kind.subnormals else 0) - kind._bias - kind.mantissa
    return max(frexp(size)[1] - 1 - kind.mantissa, least) if size else least


def _nearest(size: float, kind: NumberType) -> int:
    """The magnitude nearest to a positive number: counting in steps of its binade also counts the
    patterns.
    """
    quantum = _quantum(size, kind)
    steps = round(ldexp(size, -quantum))  # half to even
    binade = quantum + kind._bias + kind.mantissa  # E of numbers whose steps these are
    if not kind.subnormals:
        return max(0, (binade << kind.mantissa) + steps - 2**kind.mantissa)
    return ((binade - 1) << kind.mantissa) + steps


def _two_s_complement(value: float, kind: NumberType) -> int:
    """The nearest whole number, or the one at the end of the range."""
    if isnan(value):
        raise InputError(f"value = nan: {kind.name} has no NaN; accepted: a number")
    low, high = -(2**kind.mantissa) if kind.sign else 0, 2**kind.mantissa - 1
    return round(min(max(value, low), high)) % 2 ** _width(kind)
