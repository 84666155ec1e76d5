"""A config.json as an object, or a sentence on why it is none."""

import json
from pathlib import Path
from typing import Any

from mathlib.checks import InputError

LARGEST = 10_000_000  # bytes of a file; the largest config.json have some thousand


def parsed(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text is; a key that stands there twice is refused."""
    try:
        read = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
    except InputError as refusal:
        raise InputError(f"{where}: {refusal}") from None
    except json.JSONDecodeError as why:
        place = f"line {why.lineno}, column {why.colno}: {why.msg}"
        raise InputError(f"{where}: expected a JSON object; {place}") from None
    except (RecursionError, ValueError):  # a number of too many digits is a ValueError
        raise InputError(f"{where}: expected a JSON object that Python can read") from None
    if not isinstance(read, dict):
        raise InputError(f"{where}: expected a JSON object, as in {{ ... }}")
    return read


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once each."""
    found = dict(pairs)
    twice = [key for key in found if sum(key == other for other, _ in pairs) > 1]
    if len(found) < len(pairs):
        raise InputError(f"{', '.join(twice)}: expected once, is there several times")
    return found


def loaded(path: str | Path) -> dict[str, Any]:
    """A JSON file's object."""
    try:
        place = Path(path)
        with (place / "config.json" if place.is_dir() else place).open("rb") as file:
            read = file.read(LARGEST + 1)
    except TypeError:
        raise InputError(f"config = {path!r}: expected a dictionary or a path") from None
    except (OSError, ValueError) as why:  # a null byte in a name is a ValueError
        told = getattr(why, "strerror", None) or why
        raise InputError(f"config = {str(path)!r}: cannot be read ({told})") from None
    where = f"config = {str(path)!r}"
    if len(read) > LARGEST:
        raise InputError(f"{where}: expected a JSON file of at most {LARGEST:,} bytes")
    try:
        return parsed(read.decode("utf-8"), where)
    except UnicodeDecodeError:
        raise InputError(f"{where}: expected a JSON file in UTF-8") from None
