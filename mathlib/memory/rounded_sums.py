"""A sum of many small steps: what rounding after each of them leaves of it.

A step that is less than half of the spacing at the place where it lands is rounded away, and so is
every step after it.
"""

import random
from math import ceil, floor, frexp, inf, ldexp

from mathlib.checks import InputError, one_of, positive, real, whole
from mathlib.memory.bits import rounded, spacing
from mathlib.memory.precision import number_type

ROUNDINGS = ("nearest", "stochastic")


def neighbours(value: float, dtype: str) -> tuple[float, float]:
    """The numbers of a type below and above a value, which are one where it is a number itself.

    Chapter: precision (eq-spacing)
    """
    found = _within("value", value, dtype)
    step = spacing(found, dtype)
    return floor(found / step) * step, ceil(found / step) * step


def chance_up(value: float, dtype: str) -> float:
    """How likely stochastic rounding goes up: (x - low) / (high - low), so that the mean is x
    (Gupta et al. 2015).

    Chapter: precision (eq-stochastic)
    """
    return _chance(value, *neighbours(value, dtype))


def _chance(value: float, low: float, high: float) -> float:
    """Of a value between its neighbours, which are one where it is a number itself."""
    return (value - low) / (high - low) if high > low else 0.0


def stalls_at(step: float, dtype: str) -> float:
    """Where a sum of equal steps stands still: the first power of two x with
    step <= spacing / 2, that is 2**(m + 1 + ceil(log2(step))).

    At half a spacing the even neighbour wins, and a power of two is even.

    Chapter: precision (eq-stall)
    """
    m = number_type(dtype).mantissa
    fraction, power = frexp(positive("step", step))
    x = ldexp(1, m + 1 + (power - 1 if fraction == 0.5 else power))
    return x if x <= number_type(dtype).largest else inf


def add_up(
    *,
    step: float,
    steps: int,
    dtype: str,
    start: float = 0.0,
    rounding: str = "nearest",
) -> list[float]:
    """The running sum in a type, from its start on, rounded after every addition.

    Stochastic rounding throws the same dice every time.

    Chapter: precision
    """
    one_of("rounding", rounding, ROUNDINGS)
    dice = random.Random(0)
    sums = [rounded(_within("start", start, dtype), dtype)]
    added = positive("step", step)
    for _ in range(whole("steps", steps)):
        exact = sums[-1] + added
        if rounding == "nearest":
            sums.append(rounded(exact, dtype))
        else:
            low, high = neighbours(exact, dtype)
            sums.append(high if dice.random() < _chance(exact, low, high) else low)
    return sums


def _within(name: str, value: float, dtype: str) -> float:
    """A number that a type does not overflow at."""
    found = real(name, value)
    if not abs(found) <= number_type(dtype).largest:  # no number is not, either
        raise InputError(f"{name} = {value!r}: expected a number within the range of {dtype}")
    return found
