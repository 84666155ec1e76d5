"""Messages that take time: what they add to a step by order, and how many of them are waited for.

p stages · m micro_batches · alpha: time of a message, in forwards of a stage
"""

from typing import Any

from mathlib.schedule import bubble
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.trials.pipeline import MICRO_BATCHES, STAGES, named
from mathlib.trials.schedules import executed

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "1F1B": ("1f1b", {}),
    "interleaved, 2 chunks": ("interleaved", {}),
    "interleaved, 4 chunks": ("interleaved", {"chunks": 4}),
    "GPipe": ("gpipe", {}),
}


def later(
    order: str, alpha: float, p: int = 8, m: int = 32, blocking: bool = False, **more: Any
) -> float:
    """What messages add to a step; a stage computes while they are in flight, unless it blocks."""
    schedule = named(order, m, p, **more)
    slow = Times(message=alpha, blocking=blocking)
    return simulate(schedule, slow).total - simulate(schedule).total


def by_message() -> dict[str, list[tuple[float, float]]]:
    """The same of four orders, from messages that take nothing to a whole forward."""
    alphas = [i / 40 for i in range(41)]
    return {
        name: [(a, later(order, a, **more)) for a in alphas]
        for name, (order, more) in KINDS.items()
    }


def ahead(alpha: float, p: int = 8, m: int = 32) -> dict[str, tuple[float, ...]]:
    """Of orders that run once or twice p - s - 1 forwards ahead: the step without messages, what
    messages add, what they add if stages wait for them, what the first stage holds.
    """
    found: dict[str, tuple[float, ...]] = {}
    for order, title in (("1f1b", "1F1B"), ("interleaved", "interleaved")):
        for times in (1, 2):
            line = simulate(named(order, m, p, ahead=times))
            late, waits = (
                later(order, alpha, p, m, blocking, ahead=times) for blocking in (False, True)
            )
            found[f"{title}, {times}× ahead"] = line.total, late, waits, line.peak(0)
    return found


def waited_for(order: str, alpha: float, p: int = 8, m: int = 32) -> tuple[int, int]:
    """Messages of a step, and those that a stage waits for with nothing else to do."""
    plan = named(order, m, p)
    line, waits = simulate(plan, Times(message=alpha)), []
    for row, begins, ends in zip(plan.actions, line.begins, line.ends, strict=True):
        for action, begin, free in zip(row, begins, [0.0, *ends], strict=False):
            if plan.receives_from(action) is not None:
                waits.append(begin > free + 1e-9)
    return len(waits), sum(waits)


def hidden() -> dict[str, tuple[float, float]]:
    """An interleaved step with messages of a quarter and half a forward: equation, clocks."""
    alphas = (0.25, 0.5)
    ran = executed(*((named("interleaved"), Times(message=alpha)) for alpha in alphas))
    sizes = {"stages": STAGES, "micro_batches": MICRO_BATCHES, "chunks": 2}
    return {
        f"α = {alpha}": (bubble.interleaved_step(**sizes, message=alpha), one.time)
        for alpha, one in zip(alphas, ran, strict=True)
    }
