"""What was typed: the values of a command's options, which of them a person gave, and which of
these the answer asked for. One that no answer asks for has no effect, and is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError

if TYPE_CHECKING:
    from argparse import ArgumentParser

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
    "sequences": ("sequences", "batch"),
    "seconds": ("within",),
    "convention": ("as", "convention"),
    "most": ("top",),
    "rank": ("rank", "lora"),
    "targets": ("on",),
    "order": ("order", "schedule", "context_order"),
}
_NOT_TYPED = object()
_NAMED = re.compile(r"(?<!\* )\b([a-z_0-9]+) = ('[^']*'|[^\s:;,]+)")


class Typed:
    """The options of a command by name; asking for one marks it as of use."""

    def __init__(self, values: Mapping[str, Any], given: Iterable[str] = ()):
        self._values, self.given, self.used = dict(values), set(given), {"json"}
        self.status = 0  # 1: what was asked for does not fit
        self.read: dict[str, str] = {}  # options that other programs' flags set: by which flag
        self.ignored: list[str] = []  # such flags that change nothing here
        self.unknown: list[str] = []  # and those that no such program has
        self.assumed: list[str] = []  # what such a program does where its flags say nothing
        self.uncounted: list[str] = []  # what would change memory or time, and is not modelled
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
        """A value from another program's flag; refused where somebody says another one."""
        if name not in self._values:
            self.ignored.append(flag)
            return
        there = self._values[name]
        if name in self.given | self.read.keys() and there != value:
            other = spelled(name) if name in self.given else self.read[name]
            of = "" if other == spelled(name) else f", for {spelled(name)}"
            raise InputError(f"{other} ({there}) and {flag} ({value}) differ{of}; leave one out")
        self._values[name] = value
        self.read.setdefault(name, flag)

    def assume(self, name: str, value: Any, words: str) -> None:
        """What another program does of itself, where nobody says otherwise."""
        if name in self._values and name not in self.given | self.read.keys():
            self._values[name] = value
            self.assumed.append(words)

    def default(self, name: str, value: Any) -> None:
        """Another default, where nobody typed the option."""
        if name in self._values and name not in self.given:
            self._values[name] = value

    def refuse_uncounted(self, words: str) -> None:
        """Refuse what changes the answer and is not modelled."""
        if self.uncounted:
            told = ", ".join(self.uncounted)
            raise InputError(f"{told}: {words}")

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


def parsed(parser: "ArgumentParser", words: Sequence[str]) -> Typed:
    """The words as options; a second reading, without defaults, tells which were typed."""
    from argparse import Namespace

    _refuse_twice(parser, words)
    words = _joined(parser, words)
    values = vars(parser.parse_args(words))
    blank = Namespace(**dict.fromkeys(values, _NOT_TYPED))
    again = vars(parser.parse_args(words, blank))
    given = [n for n, value in again.items() if value is not _NOT_TYPED and value is not None]
    return Typed(values, [name for name in given if values[name] != []])


def _joined(parser: "ArgumentParser", words: Sequence[str]) -> list[str]:
    """--megatron --bf16 as --megatron=--bf16, where argparse takes a lone flag for an option."""
    found: list[str] = []
    for word in words:
        lone = word.startswith("--") and word not in parser._option_string_actions
        if lone and found and found[-1] == "--megatron":
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _refuse_twice(parser: "ArgumentParser", words: Sequence[str]) -> None:
    """An option that is typed twice says two things, of which one would be dropped."""
    known = parser._option_string_actions
    typed = [word.partition("=")[0] for word in words if word.startswith("--")]
    found = [known[word].dest for word in typed if word in known]
    for name in dict.fromkeys(found):
        if found.count(name) > 1 and name not in ("help", "json"):
            raise InputError(f"{spelled(name)}: typed {found.count(name)} times; expected once")


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
