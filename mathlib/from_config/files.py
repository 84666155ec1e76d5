"""Another program's file as text, a config.json as an object, or a sentence on why it is none."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from mathlib.checks import InputError

LARGEST = 10_000_000  # bytes of a config.json; the largest have some thousand
LAUNCH = 100_000  # bytes of what starts a run
DEEPEST = 100  # levels of objects and lists, so that whoever goes through them need not count


def contents(path: str | Path, where: str, kind: str, most: int = LAUNCH) -> str:
    """A file's text, read no further than such a file can reach.

    A pipe is read from whoever writes into it; it is empty, and does not wait, where nobody does.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:  # noqa: PTH123, pathlib's has no opener
            read = file.read(most + 1)
    except (OSError, ValueError) as why:  # a null byte in a name is a ValueError
        told = getattr(why, "strerror", None) or why
        raise InputError(f"{where}: cannot be read ({told})") from None
    if len(read) > most:
        raise InputError(f"{where}: expected a {kind} file of at most {most:,} bytes")
    try:
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{where}: expected a {kind} file in UTF-8") from None
    if not text.strip():
        raise InputError(f"{where}: expected a {kind} file, and there is nothing in it")
    return text


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for a writer; where no system has such pipes, as usual."""
    if not hasattr(os, "O_NONBLOCK"):
        return os.open(path, flags)
    found = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(found, True)
    return found


def toml(path: str | Path, where: str) -> dict[str, Any]:
    """A TOML file's tables."""
    import tomllib

    text = contents(path, where, "TOML")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as why:
        raise InputError(f"{where}: expected a TOML file ({why})") from None


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
    if _deep(read):
        raise InputError(f"{where}: expected a JSON object of at most {DEEPEST} levels")
    return read


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once each."""
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = ", ".join(key for key in found if times[key] > 1)
        raise InputError(f"{twice}: expected once, is there several times")
    return found


def _deep(read: dict[str, Any]) -> bool:
    """Whether there is anything below the deepest level."""
    level: list[Any] = [read]
    for _ in range(DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def loaded(path: str | Path) -> dict[str, Any]:
    """A JSON file's object."""
    where = f"config = {str(path)!r}"
    try:
        place = Path(path)
    except TypeError:
        raise InputError(f"config = {path!r}: expected a dictionary or a path") from None
    if os.path.isdir(place):  # noqa: PTH112, pathlib's raises where a name is too long
        place /= "config.json"
    return parsed(contents(place, where, "JSON", LARGEST), where)
