"""Orders in which a stage holds several chunks: interleaved 1F1B, and breadth-first.

p stages · m micro_batches · v chunks a stage

Depth first takes p micro-batches through the first chunk, then the same through the second, so that
backwards can begin early; breadth first takes all of them.
"""

from mathlib.checks import InputError, whole
from mathlib.schedule.actions import Action, Schedule, looped
from mathlib.schedule.flush import alternate


def interleaved(
    *, stages: int, micro_batches: int, chunks: int = 2, round_size: int = 0, ahead: int = 2
) -> Schedule:
    """Interleaved 1F1B: rounds of p micro-batches, chunk after chunk; stage s does
    `ahead` (p - s - 1) + (v - 1) p forwards ahead (Narayanan et al. 2021, section 2.2 and figure
    4, for 2).

    With 1 the step is as long if messages take no time, and the first stage holds p; 2 hides them.

    Needs m mod p = 0.  A `round_size` of your own replaces p; then the last round may be shorter,
    but no round shorter than the pipeline, unless there is but one (get_schedule_table of
    Megatron-LM at d98e8a6, core/pipeline_parallel/schedules.py; ScheduleInterleaved1F1B of torch).

    Chapter: schedules (eq-interleaved)
    """
    p, m, v = (
        whole("stages", stages),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    size, times = whole("round_size", round_size, least=0) or p, whole("ahead", ahead)
    if times > 2:
        raise InputError(f"ahead = {ahead}: stages would wait for each other; expected 1 or 2")
    if not round_size and m % p:
        raise InputError(
            f"micro_batches = {m}: interleaving sends rounds of p through one chunk after the "
            f"other; expected a multiple of stages = {p}, or a round_size"
        )
    if size < min(p, m) or 0 < m % size < min(p, m):
        raise InputError(
            f"round_size = {size}: of micro_batches = {m}, a round would be shorter than the "
            f"pipeline, whose last stage cannot be done before its first goes on; expected at "
            f"least {min(p, m)}, and a last round of that"
        )
    rounds = [range(first, min(first + size, m)) for first in range(0, m, size)]
    in_rounds = [(i, c) for one in rounds for c in range(v) for i in one]
    actions = []
    for s in range(p):
        forwards = [Action("F", i, c * p + s) for i, c in in_rounds]
        backwards = [Action("B", i, (v - 1 - c) * p + s) for i, c in in_rounds]
        actions.append(alternate(forwards, backwards, ahead=times * (p - s - 1) + (v - 1) * size))
    return Schedule("interleaved", m, [looped(stages=p, chunks=v)], actions)


def breadth_first(*, stages: int, micro_batches: int, chunks: int = 2) -> Schedule:
    """Fill and drain with chunks: all micro-batches pass a stage's first chunk before the first one
    passes its second; back in exactly the reverse order (Lamy-Poirier 2022, in torch's order).

    The bubble of interleaving for any m >= p, the memory of fill and drain, and the gradients of
    a chunk are complete one chunk after the other, so that data parallelism can send them early.

    Chapter: schedules (eq-interleaved)
    """
    p, m, v = (
        whole("stages", stages),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    actions = []
    for s in range(p):
        forwards = [Action("F", i, c * p + s) for c in range(v) for i in range(m)]
        backwards = [Action("B", i, c) for _, i, c in reversed(forwards)]
        actions.append(forwards + backwards)
    return Schedule("breadth-first", m, [looped(stages=p, chunks=v)], actions)
