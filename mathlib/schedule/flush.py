"""The two plain orders of a step that ends with a flush, when all gradients are there: fill and
drain, and one forward one backward.

p stages · m micro_batches
"""

from collections.abc import Sequence

from mathlib.checks import whole
from mathlib.schedule.actions import Action, Schedule, looped


def alternate(forwards: Sequence[Action], backwards: Sequence[Action], ahead: int) -> list[Action]:
    """`ahead` forwards, then a forward and a backward in turns, then what backwards are left.

    Chapter: pipeline
    """
    ahead = min(ahead, len(forwards))
    order = list(forwards[:ahead])  # warm-up
    for pair in zip(forwards[ahead:], backwards, strict=False):  # steady state
        order += pair
    return order + list(backwards[len(forwards) - ahead :])  # cool-down


def gpipe(*, stages: int, micro_batches: int) -> Schedule:
    """Fill and drain: all forwards, then all backwards (Huang et al. 2019, figure 2c).

    Every stage holds the activations of all m micro-batches.

    Chapter: pipeline
    """
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    actions = [[Action(kind, i, s) for kind in "FB" for i in range(m)] for s in range(p)]
    return Schedule("gpipe", m, [looped(stages=p)], actions)


def one_forward_one_backward(*, stages: int, micro_batches: int, ahead: int = 1) -> Schedule:
    """1F1B with a flush: stage s does `ahead` (p - s - 1) forwards first, then a forward and a
    backward in turns (Narayanan et al. 2021, figure 4, top, for 1).

    As quick as fill and drain, but stage s holds min(ahead (p - s - 1) + 1, m) micro-batches; twice
    ahead hides messages of up to (F+B)/2.

    Chapter: pipeline (eq-held, eq-ahead)
    """
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    times = whole("ahead", ahead)
    actions = []
    for s in range(p):
        forwards = [Action("F", i, s) for i in range(m)]
        backwards = [Action("B", i, s) for i in range(m)]
        actions.append(alternate(forwards, backwards, ahead=times * (p - s - 1)))
    return Schedule(
        "1f1b" if times == 1 else f"1f1b, {times} times ahead", m, [looped(stages=p)], actions
    )
