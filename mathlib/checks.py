"""What an argument may be. Every refusal names the argument, the value and what is accepted.

Formulas call these at the border, so that a bad input becomes one clear line and never a wrong
number.
"""

import math
from collections.abc import Iterable, Mapping
from math import prod
from numbers import Integral, Real
from typing import Any, TypeVar

T = TypeVar("T")
LARGEST = (
    1e36  # far beyond any model or machine, and small enough that no product of inputs overflows
)


class InputError(ValueError):
    """An argument that no formula accepts; its text is meant for the person who typed it."""


def _number(name: str, value: Any, accepted: str) -> float:
    """`value` as Python's own int or float: numpy's whole numbers would overflow without a word."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Real)):  # Real asks longest
        raise InputError(f"{name} = {value!r}: expected {accepted}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:  # NaN ends here too
        raise InputError(
            f"{name} = {number}: expected {accepted}, and a finite one of at most {LARGEST:g}"
        )
    if isinstance(value, float):
        return number
    return int(value) if isinstance(value, (int, Integral)) else number


def real(name: str, value: Any) -> float:
    """Any number, infinity and NaN as well."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} = {value!r}: expected a number")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A finite number > 0."""
    accepted = "a number greater than 0"
    number = _number(name, value, accepted)
    if number <= 0:
        raise InputError(f"{name} = {value!r}: expected {accepted}")
    return number


def non_negative(name: str, value: Any) -> float:
    """A finite number >= 0."""
    accepted = "a number, 0 or greater"
    number = _number(name, value, accepted)
    if number < 0:
        raise InputError(f"{name} = {value!r}: expected {accepted}")
    return number


def fraction(name: str, value: Any) -> float:
    """A share of a whole: 0 < value <= 1."""
    accepted = "a share greater than 0 and at most 1 (0.4 for 40%)"
    number = _number(name, value, accepted)
    if not 0 < number <= 1:
        raise InputError(f"{name} = {value!r}: expected {accepted}")
    return number


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number of things, at least `least`. 2e9 counts as whole, 2.5 does not."""
    accepted = f"a whole number, {least} or greater"
    number = _number(name, value, accepted)
    if number < least or number != int(number):
        raise InputError(f"{name} = {value!r}: expected {accepted}")
    return int(number)


def below(name: str, value: Any, size: int) -> int:
    """One of `size` things, counted from 0."""
    number = whole(name, value, least=0)
    if number >= size:
        raise InputError(f"{name} = {value}: expected 0 to {size - 1}")
    return number


def keep_whole(spec: Any, least: int, *names: str) -> None:
    """Check fields of a frozen spec, and keep them as whole numbers: 12.0 as 12."""
    for name in names:
        object.__setattr__(spec, name, whole(name, getattr(spec, name), least))


def keep_title(spec: Any) -> None:
    """What no data file gives a title is called by its name."""
    object.__setattr__(spec, "title", spec.title or spec.name)


def one_of(name: str, value: Any, accepted: Iterable[Any]) -> Any:
    """A value from a list; a near miss is named."""
    if type(value) is str and isinstance(accepted, (dict, tuple, Mapping)) and value in accepted:
        return value  # the way of almost every call
    accepted, is_flag = list(accepted), isinstance(value, bool)
    for one in accepted:
        if isinstance(one, bool) == is_flag and value == one:  # True is not stage 1
            return one
    from difflib import get_close_matches  # only a refusal needs it

    words = [str(a) for a in accepted]
    near = get_close_matches(str(value), words, n=3, cutoff=0.5)
    listed = (
        ", ".join(words)
        if len(words) <= 20
        else f"{', '.join(words[:12])}, ... ({len(words)} in all)"
    )
    hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {listed}"
    raise InputError(f"{name} = {value!r}: {hint}")


def flag(name: str, value: Any) -> bool:
    """True or False, nothing that merely counts as one."""
    return value if isinstance(value, bool) else bool(one_of(name, value, (False, True)))


def instance(name: str, value: Any, kind: type[T]) -> T:
    """A value of a class of this library."""
    if not isinstance(value, kind):
        raise InputError(
            f"{name} = {value!r}: expected a {kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        )
    return value


def listed(name: str, value: Any) -> list[Any]:
    """The members of a list or the like; text and single numbers are none."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputError(f"{name} = {value!r}: expected a list")
    return list(value)


def divides(name: str, value: Any, whole_name: str, of: int) -> int:
    """A degree that must divide a number of things without remainder."""
    value = whole(name, value)
    if of % value:
        fits = [d for d in range(1, min(of, 4096) + 1) if of % d == 0]
        shown = ", ".join(map(str, fits[:12])) + (", ..." if len(fits) > 12 else "")
        raise InputError(
            f"{name} = {value}: does not divide {whole_name} = {of}; accepted: {shown}"
        )
    return value


def divisors(n: int) -> list[int]:
    """Every degree that divides a number of things."""
    return [d for d in range(1, n + 1) if n % d == 0]


def ceil_div(things: int, group: int) -> int:
    """Groups that hold all things, the last one not always full: things / group, rounded up."""
    return -(-things // group)


def quotient(world_name: str, world: int, degrees: Mapping[str, int]) -> int:
    """world / product of the degrees, refused with the degrees named when it is no whole number."""
    world, used = whole(world_name, world), prod(whole(name, n) for name, n in degrees.items())
    if world % used:
        raise InputError(f"{' * '.join(degrees)} = {used}: does not divide {world_name} = {world}")
    return world // used
