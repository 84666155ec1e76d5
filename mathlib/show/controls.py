"""What a reader of an experiment sets: sliders, menus, names, boxes, lines and texts.

`spec` is what a page builds a control from, `check` refuses what it does not offer.
"""

import math
from dataclasses import dataclass
from typing import Any

from mathlib.checks import InputError, one_of, whole
from mathlib.show import says


@dataclass(frozen=True)
class Range:
    """A slider over low, low + step, ..., high."""

    name: str  # the argument it sets
    label: str  # full words, as the reader sees them
    low: float
    high: float
    step: float
    default: float
    unit: str = ""

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "range",
            "name": self.name,
            "label": self.label,
            "low": self.low,
            "high": self.high,
            "step": self.step,
            "default": self.default,
            "unit": self.unit,
        }

    def check(self, value: Any) -> float:
        """The value on the slider's own grid: 0.1 + 0.2 and 0.3 must not draw two pictures."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high:
            raise InputError(
                f"{self.name} = {value!r}: expected a number from {self.low} to {self.high}"
            )
        on_grid = self.low + round((value - self.low) / self.step) * self.step
        return on_grid if isinstance(on_grid, int) else round(on_grid, 9)

    def offers(self) -> list[float]:
        """Every value of the slider."""
        steps = round((self.high - self.low) / self.step)
        return [self.check(self.low + i * self.step) for i in range(steps + 1)]

    def show(self, value: float) -> str:
        """$2.50, 45%, 8 ms; book/live/controls.mjs says it alike."""
        if self.unit == "$":
            return f"${value:.2f}".removesuffix(".00")
        return f"{value:g}%" if self.unit == "%" else f"{value:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Choice:
    """One of several options, (label, value) each: a menu, or a slider when the options have an
    order.
    """

    name: str
    label: str
    options: tuple[tuple[str, Any], ...]
    default: Any
    slider: bool = False

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "slider" if self.slider else "menu",
            "name": self.name,
            "label": self.label,
            "options": [list(o) for o in self.options],
            "default": self.default,
        }

    def offers(self) -> list[Any]:
        return [value for _, value in self.options]

    def check(self, value: Any) -> Any:
        values = self.offers()
        return values[values.index(one_of(self.name, value, values))]

    def show(self, value: Any) -> str:
        return next(label for label, v in self.options if v == value)


@dataclass(frozen=True)
class Named(Choice):
    """One of many options, found by typing a part of its label."""

    likely: tuple[Any, ...] = ()  # what a reader will ask for at first

    def spec(self) -> dict[str, Any]:
        return super().spec() | {"kind": "named"}

    def touches(self) -> list[Any]:
        """What is likely."""
        return list(self.likely)


@dataclass(frozen=True)
class Toggle:
    """Yes or no."""

    name: str
    label: str
    default: bool = False

    def spec(self) -> dict[str, Any]:
        return {"kind": "toggle", "name": self.name, "label": self.label, "default": self.default}

    def offers(self) -> list[bool]:
        return [True, False]

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{self.name} = {value!r}: expected true or false")
        return value

    def show(self, value: bool) -> str:
        return "yes" if value else "no"


@dataclass(frozen=True)
class Line:
    """A line that the reader types, of a few letters; no other gets in."""

    name: str
    label: str
    letters: str
    most: int  # letters of a line
    default: str
    likely: tuple[str, ...] = ()  # what a reader will type or paste at first
    whole: bool = False  # it counts when Enter or leaving it ends it, not letter by letter
    hint: str = ""  # what stands in the empty field of a whole line

    def spec(self) -> dict[str, Any]:
        more = {"whole": True, "hint": self.hint} if self.whole else {}
        return more | {
            "kind": "line",
            "name": self.name,
            "label": self.label,
            "letters": self.letters,
            "most": self.most,
            "default": self.default,
        }

    def offers(self) -> list[str]:
        """A refusal has no other lines to offer."""
        return []

    def touches(self) -> list[str]:
        """What one key makes of the line as it stands, and what is likely: a letter more or less,
        one in place of all, none; of a whole line what is likely.
        """
        if self.whole:
            return list(self.likely)
        d, keys = self.default, ("", *self.letters)
        more = [d[:i] + key + d[i:] for i in range(len(d) + 1) for key in keys]
        less = [d[:i] + d[i + 1 :] for i in range(len(d))]
        found = dict.fromkeys([*keys, *more, *less, *self.likely])
        return [text for text in found if len(text) <= self.most]

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or self.clean(value) != value:
            raise InputError(
                f"{self.name} = {value!r}: expected at most {self.most} of the letters "
                f"{self.letters!r}"
            )
        return value

    def clean(self, text: str) -> str:
        """What of a text may stay."""
        return "".join(letter for letter in text if letter in self.letters)[: self.most]

    def show(self, value: str) -> str:
        return value or "none"


@dataclass(frozen=True)
class Text:
    """A text that the reader pastes; nothing at the start."""

    name: str
    label: str
    most: int  # letters
    hint: str = ""  # what stands in the empty field
    default: str = ""

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "text",
            "name": self.name,
            "label": self.label,
            "most": self.most,
            "hint": self.hint,
            "default": self.default,
        }

    def offers(self) -> list[str]:
        """A refusal has no other texts to offer."""
        return []

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.most:
            raise InputError(f"{self.name}: expected a text of at most {self.most:,} letters")
        return value

    def show(self, value: str) -> str:
        return f"{value[:60]} ..." if len(value) > 60 else value or "none"


Control = Range | Choice | Toggle | Line | Text


LARGE = ("million", "billion", "trillion")


def _sized(value: int, unit: str) -> str:
    """64 MB, 8 billion: a thousand million has a word of its own."""
    if unit not in LARGE:
        return f"{value:,} {unit}".rstrip()
    step = min(len(LARGE) - 1 - LARGE.index(unit), int(math.log10(value)) // 3)
    return f"{says.number(value / 1000**step)} {LARGE[LARGE.index(unit) + step]}"


def doubling(name: str, label: str, low: int, high: int, default: int, unit: str = "") -> Choice:
    """A slider over low, 2 low, 4 low, ... up to high: the logarithmic range of sizes and
    degrees.
    """
    values = []
    value = whole("low", low)
    while value <= high:
        values.append(value)
        value *= 2
    options = tuple((_sized(v, unit), v) for v in values)
    return Choice(name, label, options, one_of(name, default, values), slider=True)
