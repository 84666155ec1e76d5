"""What was typed: the values of a command's options, which of them a person gave, and which of
these the answer asked for. One that no answer asks for has no effect, and is refused.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mathlib.checks import InputError

MEANT = {  # an argument of the library: the options by which it can have been typed
    "memory": ("memory", "device"),
    "config": ("config", "model"),
    "context": ("context_parallel", "context"),
    "used": ("utilization",),
    "world": ("world", "devices"),
    "stage": ("pipeline_stage",),
    "size": ("memory", "device"),
    "tp": ("tensor",),
    "pp": ("pipeline",),
    "cp": ("context_parallel",),
    "ep": ("expert",),
    "bytes_per_element": ("bytes",),
    "price_per_hour": ("price",),
    "kg_per_kwh": ("co2",),
    "total_tokens": ("train",),
    "seconds": ("within",),
    "convention": ("as", "convention"),
}
_NOT_TYPED = object()
_NAMED = re.compile(r"(?<!\* )\b([a-z_0-9]+) = ('[^']*'|[^\s:;,]+)")


class Typed:
    """The options of a command by name; asking for one marks it as of use."""

    def __init__(self, values: Mapping[str, Any], given: Iterable[str] = ()):
        self._values, self.given, self.used = dict(values), set(given), {"json"}
        self.read: dict[str, str] = {}  # options that other programs' flags set: by which flag
        self.ignored: list[str] = []  # such flags that change nothing here
        self.unknown: list[str] = []  # and those that no such program has
        self.notes: list[str] = []  # what the answer took for granted

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(name)
        self.used.add(name)
        return self._values[name]

    def knows(self, name: str) -> bool:
        """Whether the command has such an option."""
        return name in self._values

    def value(self, name: str) -> Any:
        """What stands there, without a use for the answer."""
        return self._values.get(name)

    def as_json(self, wanted: bool) -> None:
        """Where the words of another command are inside, --json may stand among them."""
        self._values["json"] = wanted

    def take(self, name: str, value: Any, flag: str) -> None:
        """A value from another program's flag, unless the option itself was typed."""
        if name in self.given or name not in self._values:
            self.ignored.append(flag)
        else:
            self._values[name] = value
            self.read[name] = flag

    def refuse_unused(self) -> None:
        """Refuse what was typed and changed nothing."""
        unused = sorted(self.given - self.used)
        if unused:
            names = ", ".join(spelled(name) for name in unused)
            raise InputError(f"{names}: no effect on this answer; leave it out")
        idle = [name for name in self.read if name not in self.used]
        self.ignored += [self.read.pop(name) for name in idle]


def spelled(name: str) -> str:
    """An option as it is typed: --kv-heads for kv_heads."""
    return f"--{name.replace('_', '-')}"


def parsed(parser: ArgumentParser, words: Sequence[str]) -> Typed:
    """The words as options; a second reading, without defaults, tells which were typed."""
    values = vars(parser.parse_args(words))
    blank = Namespace(**dict.fromkeys(values, _NOT_TYPED))
    again = vars(parser.parse_args(words, blank))
    given = [n for n, value in again.items() if value is not _NOT_TYPED and value is not None]
    return Typed(values, [name for name in given if values[name] != []])


def in_typed_words(text: str, typed: Typed) -> str:
    """A refusal of the library with the options that were typed instead of its arguments."""

    def replace(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        for option in MEANT.get(name, (name,)):
            if option in typed.given:
                plain = option in ("model", "name")  # they stand without an option
                return f"{option} {value}" if plain else f"{spelled(option)} {value}"
            if option in typed.read:
                return f"{typed.read[option]} (here {spelled(option)} {value})"
        return found[0]

    return _NAMED.sub(replace, text)
