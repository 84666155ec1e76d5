"""The formulas behind a planned step, each with its numbers, for every part of its time.

The numbers are the planner's own; a formula is shown only where they give the part that it gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mathlib.checks import InputError
from mathlib.plan import step
from mathlib.plan.laws import LAWS, ON_HOST
from mathlib.show import says
from mathlib.show.equation import Number, equation
from mathlib.specs import Layout

SHOWN: dict[str, Callable[[float], str]] = {  # a letter without its index: how its numbers look
    "t": says.time,
    "F": says.flop,
    "A": says.flop,
    "X": says.speed,
    "Y": says.speed,
    "Q": says.size,
    "W": says.rate,
    "P": says.count,
}


@dataclass(frozen=True)
class Law:
    """A part of a sum: its amount, its formula as MathML ("" where none is known), in words."""

    name: str
    amount: float
    formula: str
    words: str


def law(name: str, amount: Number, words: str, text: str, numbers: dict[str, Number]) -> Law:
    """A law that holds; without its formula where the numbers do not satisfy it."""
    left = text.partition("=")[0].strip()
    try:
        formula = equation(text, **{left: amount}, **numbers)
    except InputError:
        formula = ""
    value = amount[0] if isinstance(amount, tuple) else amount
    return Law(name, value, formula, words if formula else "")


def timed(value: float) -> Number:
    """Seconds, as an equation shows them."""
    return value, says.time(value)


def sized(value: float) -> Number:
    """Bytes, as an equation shows them."""
    return value, says.size(value)


def typeset(letter: str, value: float) -> Number:
    """The number of a letter, as an equation shows it."""
    show = SHOWN.get(letter.partition("_")[0])
    return (value, show(value)) if show else value


def seconds(on: step.Machine, layout: Layout, offload: str = "none") -> list[Law]:
    """The parts of a step with their formulas, in the order in which the planner adds them."""
    parts = step.step(on, layout, offload=offload)
    letters = step.letters(on, layout, offload=offload)
    found = []
    for name in parts:
        key = ON_HOST if name == "optimizer" and ON_HOST in letters else name
        text, words = LAWS.get(key, ("T = 0", ""))
        numbers = {letter: typeset(letter, value) for letter, value in letters[key].items()}
        found.append(law(name, timed(parts.amount(name)), words, text, numbers))
    return found
