"""The plain orders: fill and drain, and one forward one backward; with a flush, when all gradients
are there, or without one, as PipeDream.

p stages · m micro_batches
Without a flush weights change while micro-batches are in flight: gradients come late, and training
differs from that on one device. m counts those of all steps then.
"""

from collections.abc import Sequence
from dataclasses import replace

from mathlib.checks import InputError, whole
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


def pipedream(*, stages: int, micro_batches: int) -> Schedule:
    """PipeDream: the order of 1F1B, and every backward is followed by an update of the stage's
    weights (Narayanan et al. 2019, sections 3.2 and 3.3).

    A micro-batch goes back through the weights with which it came, so stage s stashes p - s
    versions.

    Chapter: schedules (eq-stash)
    """
    plain = one_forward_one_backward(stages=stages, micro_batches=micro_batches)
    return replace(plain, name="pipedream", weights="stash", accumulate=1)


def two_versions(*, stages: int, micro_batches: int, accumulate: int = 0) -> Schedule:
    """PipeDream-2BW: the order of 1F1B, an update after every `accumulate` micro-batches (0: p),
    and each step's gradient is that of the weights one step older: W(t+1) = W(t) - r f'(W(t-1))
    (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training", section 3.1).

    Needs accumulate >= p, else three versions would be in use at once.

    Chapter: schedules (eq-late)
    """
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    each = whole("accumulate", accumulate, least=0) or p
    if each < p:
        raise InputError(
            f"accumulate = {each}: a micro-batch would need weights that are not there yet, with "
            f"stages = {p} in flight; expected at least {p}"
        )
    if m % each:
        raise InputError(
            f"micro_batches = {m}: expected a multiple of accumulate = {each}, whole steps"
        )
    plain = one_forward_one_backward(stages=p, micro_batches=m)
    return replace(plain, name="2bw", weights="double", accumulate=each)
