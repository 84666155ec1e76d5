"""Numbers as pictures and verdicts say them, in words short enough for a label."""

from mathlib import units


def size(value: float) -> str:
    """Bytes with three digits: 16 GB."""
    return units.show(value, "byte", digits=3)


def time(value: float) -> str:
    """Seconds with three digits: 12 ms."""
    return units.show(value, "second", digits=3)


def flop(value: float) -> str:
    return units.show(value, "FLOP")


def count(value: float) -> str:
    """Parameters: 175B."""
    return units.show(value, "parameter")


def rate(value: float) -> str:
    """Bytes a second."""
    return units.show(value, "byte/s")


def short(value: float) -> str:
    """A number on an axis, six digits at most."""
    return f"{value:,g}"


def plain(value: float) -> str:
    """A number for people: whole ones in full up to a million, others with four digits."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.4g}"
