"""Units, at the edge only: text in, text out. Inside the library everything is in base units.

byte · FLOP · FLOP/s · byte/s · second · token · parameter.  1 GB = 1e9 bytes, 1 GiB = 2**30 bytes,
1 PF/s-day = 1e15 FLOP/s for 86400 s.  A bit is an eighth of a byte: 400 Gbit/s = 50 GB/s.
"""

import re

from mathlib.checks import LARGEST, InputError, non_negative, one_of

SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "week": 604800.0,
    "year": 365.25 * 86400.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
}
DECIMAL = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Z": 10**21,
}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
COUNTS = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "m": 10**6,
    "B": 10**9,
    "b": 10**9,
    "G": 10**9,
    "T": 10**12,
    "t": 10**12,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
PF_DAY = 1e15 * 86400.0  # FLOP in one petaFLOP/s-day
KINDS = {
    "byte": "80GB, 80 GiB, 512 MiB",
    "byte/s": "900 GB/s, 400 Gbit/s",
    "FLOP": "3.14e23, 3640 PF/s-days, 10 GFLOP",
    "FLOP/s": "312 TFLOP/s, 312e12",
    "second": "90 s, 34 days, 12h",
    "token": "300B tokens, 1.4T",
    "parameter": "175B, 7e9",
    "nat/token": "1.94",
}
_TEXT = re.compile(r"\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")


def _factor(unit: str, kind: str) -> float | None:
    """How many base units `unit` is, or None when it is not a unit of this kind."""
    prefixes = {**DECIMAL, **BINARY}
    if kind == "nat/token":
        return DECIMAL.get(re.sub(r"nats?/token$", "", unit)) if unit.endswith("/token") else None
    if kind in ("token", "parameter"):
        word = re.sub(r"\s*(tokens?|tok|param(eter)?s?)$", "", unit)
        return COUNTS.get(word)
    if kind == "second":
        return SECONDS.get(unit) or SECONDS.get(unit.removesuffix("s"))
    if kind == "byte":
        match = re.fullmatch(r"([kKMGTPE]i?|)(B|bytes?|bit|bits)", unit)
        return match and prefixes[match[1]] / (8 if match[2].startswith("bit") else 1)
    if kind == "byte/s":
        match = re.fullmatch(r"([kKMGTPE]i?|)(B|bytes?|bit|bits|b)(?:/s|ps)", unit)
        return match and prefixes[match[1]] / (8 if match[2] in ("b", "bit", "bits") else 1)
    if kind == "FLOP/s":
        match = re.fullmatch(r"([kKMGTPEZ]?)(?:FLOPs?/s|FLOPS|FLOPs|flops|flop/s)", unit)
        return match and DECIMAL[match[1]]
    match = re.fullmatch(r"([kKMGTPEZ]?)(?:FLOPs?|flops?)", unit)
    if match:
        return DECIMAL[match[1]]
    return PF_DAY if re.fullmatch(r"(PF/s-days?|PFLOP/s-days?|petaflop/s-days?)", unit) else None


def parse(name: str, value: float | str, kind: str) -> float:
    """A number in base units from "80 GB", "312 TFLOP/s", "300B tokens" or a bare number; whole
    numbers stay int.
    """
    one_of("kind", kind, KINDS)
    plural = kind if "FLOP" in kind or "/" in kind else f"{kind}s"
    wanted = f"a number in {plural} or text such as {KINDS[kind]}"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{name} = {value!r}: expected {wanted}")
    if isinstance(value, str):
        match = _TEXT.match(value)
        if not match:
            raise InputError(f"{name} = {value!r}: expected {wanted}")
        digits, unit = match[1].replace(",", "").replace("_", ""), match[2]
        factor = 1 if unit == "" else _factor(unit, kind)
        if factor is None:
            raise InputError(
                f"{name} = {value!r}: {unit!r} is not a unit of {kind}; expected {wanted}"
            )
        whole = digits.lstrip("+-").isdigit() and len(digits) < 40
        value = (int(digits) if whole else float(digits)) * factor
    if not abs(value) <= LARGEST:
        raise InputError(
            f"{name} = {value!r}: expected {wanted}, and a finite one of at most {LARGEST:g}"
        )
    return int(value) if value == int(value) and abs(value) < 2**63 else value


TIMES = [
    (86400.0, "days"),
    (3600.0, "hours"),
    (60.0, "min"),
    (1.0, "s"),
    (1e-3, "ms"),
    (1e-6, "us"),
    (1e-9, "ns"),
]
SHORT_COUNTS = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, "")]
DECIMAL_SIZES = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]
BINARY_SIZES = [
    (2.0**50, "PiB"),
    (2.0**40, "TiB"),
    (2.0**30, "GiB"),
    (2.0**20, "MiB"),
    (2.0**10, "KiB"),
    (1.0, "B"),
]


def _scaled(value: float, digits: int, steps: list[tuple[float, str]]) -> str:
    size, word = next(
        (step for step in steps if abs(value) >= step[0] * (1 - 5 * 10.0 ** -(digits + 1))),
        steps[-1],
    )
    return (
        f"{value / size:.{digits}g} {word}"
        if abs(value / size) < 10**digits
        else f"{value / size:,.0f} {word}"
    )


def show(value: float, kind: str, binary: bool = False, digits: int = 4) -> str:
    """Text for people: 1.234 TB, 312 TFLOP/s, 34.7 days, 175 B. `binary` writes GiB, never calling
    it GB.
    """
    one_of("kind", kind, KINDS)
    if value == 0:
        return {"second": "0 s", "token": "0", "parameter": "0"}.get(kind, f"0 {kind}")
    if kind == "second":
        long = abs(value) >= 2 * SECONDS["year"]
        return _scaled(value, digits, [(SECONDS["year"], "years")] if long else TIMES)
    if kind in ("token", "parameter"):
        return _scaled(value, digits, SHORT_COUNTS).replace(" ", "")
    if kind.startswith("byte"):
        sizes = BINARY_SIZES if binary else DECIMAL_SIZES
        return _scaled(value, digits, sizes) + kind.removeprefix("byte")
    if kind == "FLOP" and abs(value) >= 1e21:
        return f"{value:.{digits - 1}e} FLOP"
    prefixes = [(10.0 ** (3 * n), f"{' kMGTPE'[n].strip()}{kind}") for n in range(6, -1, -1)]
    return _scaled(value, digits, prefixes)


def pf_days(flop: float) -> float:
    """FLOP in petaFLOP/s-days, the unit of GPT-3's Table D.1; `pf_days(x) * PF_DAY` is x again."""
    return non_negative("flop", flop) / PF_DAY
