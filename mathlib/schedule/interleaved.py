"""Orders in which a stage holds several chunks: interleaved 1F1B, and breadth-first.

p stages · m micro_batches · v chunks a stage

Depth first takes p micro-batches through the first chunk, then the same through the second, so that
backwards can begin early; breadth first takes all of them.
"""

from mathlib.checks import InputError, whole
from mathlib.schedule.actions import Action, Schedule, looped
from mathlib.schedule.flush import alternate


def interleaved(
    *, stages: int, micro_batches: int, chunks: int = 2, round_size: int = 0
) -> Schedule:
    """Interleaved 1F1B: rounds of p micro-batches, chunk after chunk; stage s does
    2 (p - s - 1) + (v - 1) p forwards ahead (Narayanan et al. 2021, section 2.2 and figure 4).

    Needs m mod p = 0.  A `round_size` of your own, which must divide m, replaces p: rounds of
    10 / 2 = 5 let 10 micro-batches run on 4 stages, as torch's schedule does.

    Chapter: pipeline
    """
    p, m, v = (
        whole("stages", stages),
        whole("micro_batches", micro_batches),
        whole("chunks", chunks),
    )
    size = whole("round_size", round_size, least=0) or p
    if m % size:
        raise InputError(
            f"micro_batches = {m}: interleaving sends rounds of {size} through one chunk after the "
            f"other; expected a multiple of {'round_size' if round_size else 'stages'} = {size}"
        )
    in_rounds = [
        (first + i, c) for first in range(0, m, size) for c in range(v) for i in range(size)
    ]
    actions = []
    for s in range(p):
        forwards = [Action("F", i, c * p + s) for i, c in in_rounds]
        backwards = [Action("B", i, (v - 1 - c) * p + s) for i, c in in_rounds]
        actions.append(alternate(forwards, backwards, ahead=2 * (p - s - 1) + (v - 1) * size))
    return Schedule("interleaved", m, [looped(stages=p, chunks=v)], actions)


def breadth_first(*, stages: int, micro_batches: int, chunks: int = 2) -> Schedule:
    """Fill and drain with chunks: all micro-batches pass a stage's first chunk before the first one
    passes its second; back in exactly the reverse order (Lamy-Poirier 2022, section 4).

    The bubble of interleaving for any m >= p, the memory of fill and drain, and the gradients of
    a chunk are complete one chunk after the other, so that data parallelism can send them early.

    Chapter: pipeline
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
