"""The formulas behind a planned step, each with its numbers, for every part of its time and memory.

The numbers are the planner's own; a formula is shown only where they give the part that it gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mathlib.checks import InputError
from mathlib.memory import states
from mathlib.plan import step
from mathlib.plan.adapted import AdapterRoom
from mathlib.plan.laws import LAWS, ON_HOST
from mathlib.plan.room import Room
from mathlib.plan.work import OFFLOAD, Away
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
    """The parts of a step with their formulas, in the order in which the planner adds them; with
    adapters without them.
    """
    parts = step.step(on, layout, offload=offload)
    if on.adapters:
        return [Law(name, parts.amount(name), "", "") for name in parts]
    letters = step.letters(on, layout, offload=offload)
    found = []
    for name in parts:
        key = ON_HOST if name == "optimizer" and ON_HOST in letters else name
        text, words = LAWS.get(key, ("T = 0", ""))
        numbers = {letter: typeset(letter, value) for letter, value in letters[key].items()}
        found.append(law(name, timed(parts.amount(name)), words, text, numbers))
    return found


HELD = ("model states", "activations", "logits", "working tensors")  # as Room.parts has them


def parts(room: Room, layout: Layout, offload: str = "none") -> dict[str, float]:
    """Bytes of the fullest device by part, as the planner has them."""
    held = room.parts(layout, OFFLOAD[offload])
    return {name: amount for name, amount in zip(HELD, held, strict=True) if amount}


def memory(room: Room, layout: Layout, offload: str = "none") -> list[Law]:
    """What fills the fullest device, with the formulas; with adapters part by part without them."""
    if isinstance(room, AdapterRoom):
        return [Law(name, amount, "", "") for name, amount in room.by_part(layout).items()]
    amounts, away = parts(room, layout, offload), OFFLOAD[offload]
    laws = [
        _states(room, layout, amounts, away),
        _activations(room, layout, amounts, away),
        _logits(room, layout, amounts),
        _working(room, layout, amounts),
    ]
    return [one for one in laws if one.amount]


def _states(room: Room, lay: Layout, amounts: dict[str, float], away: Away) -> Law:
    """Weights, gradients, master weights and optimizer states."""
    among = (lay.shard, lay.expert_shard) if lay.zero else (1, 1)
    copies = [states.per_parameter(room.copied, zero=lay.zero, shard=S) for S in among]
    stay = ("weights", "gradients") if away.states else tuple(copies[0])
    kappa, beta = (sum(one.amount(name) for name in stay) for one in copies)
    P, E = room.weights(lay, kappa, beta)
    numbers: dict[str, Number] = {"P": (P, says.count(P)), "kappa": sized(kappa)}
    words = "P parameters of a stage, with κ bytes of weight, gradient and optimizer for each."
    if away.states:
        words = "P parameters of a stage, with κ bytes of weight and gradient for each. The rest "
        words += "waits in the host's memory."
    text = "M = P * kappa"
    if E:
        text += " + E * beta"
        numbers |= {"E": (E, says.count(E)), "beta": sized(beta)}
        words += " E parameters of experts are shared by other ranks, so each takes β."
    return law(HELD[0], sized(amounts[HELD[0]]), words, text, numbers)


def _activations(room: Room, lay: Layout, amounts: dict[str, float], away: Away) -> Law:
    """Of the first stage or, where that has more with its logits, the last."""
    at, kept = room.stages(lay), amounts.get(HELD[1], 0.0)
    last = "logits" in amounts and not away.kept
    layers, n = (sum(at.last), at.behind) if last else (at.layers, at.flying)
    if away.kept:
        words = "Of l layers and n micro-batches two stay, with a bytes each: one is on its way to "
        words += "or from the host's memory, where the others wait."
        here: dict[str, Number] = {"l": layers, "n": n, "a": sized(kept / min(2, layers * n))}
        return law(HELD[1], sized(kept), words, "M = min(2, l * n) * a", here)
    words = "l layers keep a bytes of each of the n micro-batches that are in flight."
    numbers: dict[str, Number] = {"l": layers, "n": n, "a": sized(kept / (layers * n))}
    return law(HELD[1], sized(kept), words, "M = l * n * a", numbers)


def _logits(room: Room, lay: Layout, amounts: dict[str, float]) -> Law:
    each, whole = f"{room.keeps.logit:g}", room.keeps.whole_logits
    words = f"A logit of V words and its gradient take {each} bytes, a number of the stream's h 4; "
    words += "b sequences of s tokens, shared by c context " + ("" if whole else "and t tensor ")
    words += "ranks."
    numbers: dict[str, Number] = {"V": room.model.padded_vocab, "h": room.model.width}
    numbers |= {"s": room.tokens, "b": lay.micro_batch, "c": lay.context}
    numbers |= {} if whole else {"t": lay.tensor}
    text = f"M = ({each} * V + 4 * h) * s * b / " + ("c" if whole else "(c * t)")
    return law(HELD[2], sized(amounts.get(HELD[2], 0.0)), words, text, numbers)


def _working(room: Room, lay: Layout, amounts: dict[str, float]) -> Law:
    """A layer that ZeRO gathers, a layer that is computed again."""
    P = e = 0.0
    if lay.zero > 1 and lay.shard > 1:
        P = room.largest(lay)
        e = states.per_parameter(room.copied).amount("gradients") + (2 if lay.zero == 3 else 0)
    total = amounts.get(HELD[3], 0.0)
    again = total - P * e if lay.recompute == "full" else 0.0
    words = (
        "ZeRO holds the whole of one layer, P parameters with e bytes each; recomputation all "
        "that a layer keeps, a bytes."
    )
    numbers: dict[str, Number] = {"P": (P, says.count(P)), "e": e, "a": sized(again)}
    return law(HELD[3], sized(total), words, "M = P * e + a", numbers)
