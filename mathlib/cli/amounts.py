"""Text becomes numbers here and nowhere else: 80GB, 300B tokens, 40%, 32k are parsed here."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from mathlib import units
from mathlib.checks import InputError

BARE = 1e6  # a bare number below this many bytes has lost its unit
WORDS = {"byte": "bytes", "byte/s": "bytes a second", "FLOP/s": "FLOP a second", "token": "tokens"}
POWERS = {"k": 2**10, "ki": 2**10, "m": 2**20, "mi": 2**20}
SIZES = ("k", "m", "g", "t", "p")  # 80gb, 80G, 80gib: what people type for 80GB and 80GiB


def amount(kind: str) -> Callable[[str], float]:
    """An argparse type: text with a unit of this kind, or a bare number in base units."""

    def parse(text: str) -> float:
        try:
            return units.parse("value", text, kind)
        except InputError as refused:
            raise ArgumentTypeError(str(refused).removeprefix("value = ")) from None

    return parse


NUMBER = amount("parameter")


def room(text: str) -> float:
    """Bytes with their unit, in any case: 80GB, 80gb, 80G and 80 GiB; 80 alone is asked back."""
    digits = text.rstrip("BbiIkKmMgGtTpP ")
    unit = text[len(digits) :].strip().lower().removesuffix("b")
    binary = unit.endswith("i")
    if unit.removesuffix("i") in SIZES:
        prefix = unit[0].upper() + "i" if binary else unit[0].upper().replace("K", "k")
        text = f"{digits}{prefix}B"
    return _with_unit(text, "byte", f"{digits}GB or {digits}GiB")


def rate(text: str) -> float:
    """Bytes a second with their unit: 300GB/s, 400Gbit/s; 300 alone is asked back."""
    return _with_unit(text, "byte/s", f"{text}GB/s")


def speed(text: str) -> float:
    """FLOP/s with their unit: 711TFLOP/s, 711TF or 711T; 711 alone is asked back."""
    digits = text.rstrip("MGTPF ")
    unit = text[len(digits) :].strip().removesuffix("F")
    whole = f"{digits}{unit}FLOP/s" if len(unit) == 1 else text
    return _with_unit(whole, "FLOP/s", f"{text}TFLOP/s")


def corpus(text: str) -> float:
    """Tokens of a whole run with their unit: 300B, 15T; 15 alone is asked back."""
    return _with_unit(text, "token", f"{text}B or {text}T")


def _with_unit(text: str, kind: str, example: str) -> float:
    found = amount(kind)(text)
    if 0 < found < BARE and text.strip().replace(".", "").isdigit():
        raise ArgumentTypeError(
            f"{text!r}: {text} {WORDS[kind]}? expected a unit, such as {example}"
        )
    return found


def share(text: str) -> float:
    """A share: 40%, or 0.4."""
    if text.endswith("%"):
        return float(amount("parameter")(text[:-1])) / 100
    found = amount("parameter")(text)
    if found > 1:
        raise ArgumentTypeError(f"{text!r}: expected a share, such as 40% or 0.4")
    return found


def length(text: str) -> float:
    """Tokens of a sequence. 32k is 32,768: lengths are powers of two, whoever says one."""
    digits = text.rstrip("kKmMi")
    unit = text[len(digits) :].lower()
    if unit in POWERS:
        return amount("token")(repr(float(amount("token")(digits)) * POWERS[unit]))
    return amount("token")(text)
