"""Orders without a flush: micro-batches follow each other without end, and weights change while
some are on their way.  They are not equal to training on one device: gradients come late.

p stages · m micro_batches (of all steps together)
"""

from dataclasses import replace

from mathlib.checks import InputError, whole
from mathlib.schedule.actions import Schedule
from mathlib.schedule.flush import one_forward_one_backward


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
