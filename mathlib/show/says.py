"""Numbers for people: three significant digits, typeset powers of ten, units that stay with them.

The one place that decides how a number looks in tables, pictures, experiments and verdicts.
Text is the same everywhere, `3.14 × 10²³ FLOP`; `html` adds <sup> and no-break spaces.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape

from mathlib import units

DIGITS = 3
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")
POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)\b")
PREFIXED = r"[kKMGTPEZ]?i?(?:bytes?|bits?|B|FLOPs?)(?:/s)?"
WORDS = r"s|ms|µs|us|ns|min|hours?|days?|years?|%|times|tokens?|parameters|[mb]illion|ranks|devices"
THINGS = (  # what else is counted on a page
    r"kB|[KMGTP]?bit/s|[kMGT]?Wh?|[MG]Hz|PF/s-days?|FLOP/byte|nats?(?:/token)?|bytes?/parameter|h|d"
    r"|weeks?|months?|dollars|[tbm]rillion|thousand|times|(?:[GT]PU|cent)(?:s|-\w+)?|rank|device"
    r"|cards?|GPUs?|nodes?|machines?|process(?:es)?|cores?|layers?|heads?|steps?|stages?|micro-batch(?:es)?"
    r"|buckets?|elements?|sequences?|weights|rounds?|ticks?|slots?|points?"
)
UNIT = re.compile(rf"(?<=[\d⁰¹²³⁴⁵⁶⁷⁸⁹]) (?=(?:{PREFIXED}|{WORDS})(?![\w]))")
PLAIN = re.compile(r"[-−]?[\d,]+(\.\d+)?")
POINT, FIGURE = "\u2008", "\u2007"  # spaces as wide as a point, as a digit


def typeset(text: str) -> str:
    """Text with its numbers as they are printed: 3.1e+23 is 3.1 × 10²³, us is µs, 2 $ is $2."""
    text = POWER.sub(_power, text)
    text = re.sub(r"(?<=\d )us\b", "µs", text)
    return re.sub(r"(?<![\w.,])(\d[\d,.]*) \$", r"$\1", text)


def _power(found: re.Match[str]) -> str:
    exponent = f"{found[2].replace('+', '')}{found[3]}".translate(RAISED)
    return f"10{exponent}" if found[1] == "1" else f"{found[1]} × 10{exponent}"


def html(text: str) -> str:
    """The same as HTML: exponents raised, no line break inside a number with its unit."""
    said = UNIT.sub("\u00a0", typeset(text)).replace(" × 10", "\u00a0×\u00a010")
    return re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda x: f"<sup>{x[0].translate(LOWERED)}</sup>", escape(said))


def number(value: float) -> str:
    """Three significant digits: 0.0123, 1.5, 12,300, 3.14 × 10²³; whole numbers below a million in
    full.
    """
    if abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}"
    return _rounded(value, "")


def cell(value: float) -> str:
    """A measured number in a column: its zeros are digits too, 1.50."""
    return "0" if value == 0 else _rounded(value, "#")


def _rounded(value: float, zeros: str) -> str:
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "not a number")
    if 1e-3 <= abs(value) < 1e6:
        size = math.floor(math.log10(abs(value)))
        near = round(value, DIGITS - 1 - size)
        return f"{near:,.0f}" if abs(near) >= 100 else f"{near:{zeros}.{DIGITS}g}".rstrip(".")
    return typeset(f"{value:.{DIGITS}g}" if value else "0")


def ratio(value: float) -> str:
    """How many times: 1.05, 0.984, 1.00."""
    return "1.00" if abs(value - 1) < 0.0005 else cell(value)


def one(unit: str) -> str:
    """A unit of which there is one: bytes, byte."""
    return unit[:-1] if unit.endswith("s") and unit != "s" else unit


def percent(share: float) -> str:
    """A share of one: 0.8%, 37%."""
    return f"{number(float(f'{100 * share:.2g}'))}%"


@lru_cache(4096)  # a picture says each number twice, in its wide and in its narrow drawing
def amount(value: float, unit: str) -> str:
    """A number with its unit: 16 GB, 12 µs, 3.14 × 10²³ FLOP, 1.05 times."""
    if unit in units.KINDS:
        return typeset(units.show(value, unit, digits=DIGITS))
    return typeset(f"{number(value)} {unit}").rstrip().replace(" %", "%")


def size(value: float) -> str:
    """Bytes: 16 GB."""
    return amount(value, "byte")


def time(value: float) -> str:
    """Seconds: 12 ms."""
    return amount(value, "second")


def flop(value: float) -> str:
    """FLOP: 6 TFLOP."""
    return amount(value, "FLOP")


def count(value: float) -> str:
    """Parameters: 175B."""
    return amount(value, "parameter")


def rate(value: float) -> str:
    """Bytes a second: 50 GB/s."""
    return amount(value, "byte/s")


def speed(value: float) -> str:
    """FLOP a second: 312 TFLOP/s."""
    return amount(value, "FLOP/s")


def short(value: float) -> str:
    """A number on an axis, six digits at most."""
    return typeset(f"{value:,g}")


def plain(value: float) -> str:
    """A number in a sentence."""
    return number(value)


def aligned(cells: Sequence[str]) -> list[str]:
    """A column of plain numbers, padded on the right so that their points stand in one line."""
    if not all(PLAIN.fullmatch(cell) for cell in cells):
        return list(cells)
    after = [len(cell.partition(".")[2]) for cell in cells]
    most = max(after, default=0)
    return [
        cell + FIGURE * (most - n) + (POINT if most and not n else "")
        for cell, n in zip(cells, after, strict=True)
    ]
