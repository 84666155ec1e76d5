"""The formulas behind a planned step, each with its numbers, for every part of its time.

The numbers are the planner's own; a formula is shown only where they give the part that it gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mathlib.checks import InputError
from mathlib.plan import step
from mathlib.show import says
from mathlib.show.equation import Number, equation
from mathlib.specs import Layout

LAWS = {  # part: its formula, and what its letters are
    "products": (
        "T = 3 * m * l * (F / X + Q / W)",
        "A layer's products, once forward and twice backward, for m micro-batches in l layers of a "
        "stage: F FLOP at the X that the device reaches, Q bytes at W.",
    ),
    "attention": (
        "T = c * m * l * A / Y",
        "A FLOP of scores and values at the Y that the kernel reaches; forward and backward are c "
        "forwards.",
    ),
    "memory traffic": (
        "T = 3 * m * l * Q / W",
        "Norms, sums and activation functions: Q bytes forward at W.",
    ),
    "waiting for launches": (
        "T = m * l * (sqrt(t_b ** 2 + t_k ** 2) - t_b)",
        "A layer's kernels take t_k to launch; t_b is what they compute.",
    ),
    "recomputation": (
        "T = m * l * (c_p * t_p + c_a * t_a + c_m * t_m)",
        "The shares c of a layer's forward that are computed again: products, attention, the rest.",
    ),
    "tensor exchange": (
        "T = m * l * n * t_r * (1 - o)",
        "n times a layer, tensor ranks add up their parts of the stream, each time in t_r; a share "
        "o hides behind products.",
    ),
    "context exchange": (
        "T = m * l * max(t_c * (1 - o), t_c - t_b)",
        "Keys and values go round in t_c; a share o hides, or as much as attention takes, t_b.",
    ),
    "expert exchange": (
        "T = m * l * n * t_a * (1 - o)",
        "Tokens go to their experts and back, n times, each time in t_a; a share o hides.",
    ),
    "loss on the last stage": (
        "T = m * (n * t + t_h - l * t)",
        "Head and loss take t_h; the last stage, with n layers of t each, is so much slower than "
        "one with l.",
    ),
    "messages between stages": (
        "T = m * v * t_s",
        "A micro-batch waits t_s for its activations and gradients, once for each of v chunks.",
    ),
    "bubble": (
        "T = (p - 1) / v * (L / p * t + t_h / p + t_s)",
        "A micro-batch passes p stages, of L layers in all, before every stage is busy.",
    ),
    "data exchange": (
        "T = max(t_x * (1 - o), t_x - t_b)",
        "Gradients and weights take t_x in all; a share o hides, or as much as is computed then, "
        "t_b.",
    ),
    "optimizer": (
        "T = 30 * P / (S * W)",
        "Adam reads and writes 30 bytes for each parameter: of the P of a device it keeps one in "
        "S, at W.",
    ),
    "crowding": (
        "T = c * log2(n) * t_0",
        "All else, t_0, takes a share c longer for each doubling of the n nodes.",
    ),
}

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


def seconds(on: step.Machine, layout: Layout) -> list[Law]:
    """The parts of a step with their formulas, in the order in which the planner adds them."""
    parts, letters = step.step(on, layout), step.letters(on, layout)
    found = []
    for name in parts:
        text, words = LAWS.get(name, ("T = 0", ""))
        numbers = {letter: typeset(letter, value) for letter, value in letters[name].items()}
        found.append(law(name, timed(parts.amount(name)), words, text, numbers))
    return found
