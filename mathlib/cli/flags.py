"""Flags of other programs as words: cut up, read as numbers, held against the program's own list.

What that list (data/launches.toml) lacks is refused where something near is in it.
"""

import shlex
from collections.abc import Sequence

from mathlib.checks import InputError
from mathlib.cli.typed import Typed
from mathlib.specs import table

Flags = dict[str, list[str]]  # by name, without its dashes: the words behind it


def words_of(text: str, option: str) -> list[str]:
    """A line cut up as a shell does; comments and the backslashes of broken lines are no words."""
    try:
        words = [word for word in shlex.split(text, comments=True) if word.strip("\\\n")]
    except ValueError as why:
        raise InputError(f"{option}: {str(why).lower()} in {text[:60]!r}") from None
    if not words:
        raise InputError(f"{option} {text!r}: expected a line, and there is nothing in it")
    return words


def flags_of(words: Sequence[str], option: str) -> Flags:
    """--name value value as {name: [value, value]}; refused where two of a name differ."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found.append((name, [value] if equals else []))
        elif found:
            found[-1][1].append(word)
        else:
            raise InputError(f"{option} {word}: expected flags, each with -- before it")
    flags: Flags = {}
    for name, values in found:
        if flags.setdefault(name, values) != values:
            both = f"{' '.join(flags[name])} and {' '.join(values)}"
            raise InputError(f"--{name}: said twice, {both}; expected once")
    return flags


def number(flag: str, values: Sequence[str]) -> int:
    """The one whole number behind a flag."""
    if len(values) == 1 and values[0].replace("_", "").isdigit():
        return int(values[0])
    raise InputError(f"{flag} {' '.join(values)}".strip() + ": expected a whole number")


def unknown(typed: Typed, program: str, name: str, flag: str) -> None:
    """A name that a program lacks: refused where one near it is meant, told where none is."""
    from difflib import get_close_matches  # only what is unknown needs it

    row = table("launches")[program]
    near = get_close_matches(name, row["flags"], n=1, cutoff=0.8)
    if near:
        meant = flag.replace(name, near[0]) if name in flag else f"--{near[0]}"
        raise InputError(f"{flag}: {row['title']} has none such; did you mean {meant}?")
    typed.unknown.append(flag)
