"""Which version of the weights each micro-batch meets on each stage, and how many a stage keeps.

p stages · m micro_batches

Version k are the weights after k updates.  A stage updates when `accumulate` micro-batches have
gone back through all of its chunks.
"""

import math
from collections import Counter
from collections.abc import Iterator

from mathlib.checks import below, instance, whole
from mathlib.schedule.actions import Schedule


def versions(schedule: Schedule, *, stage: int = 0) -> list[int]:
    """The version of a stage's weights that each micro-batch meets, forward and backward alike.

    flush: 0 for all.  stash: the newest when its first forward begins; i - (p - s - 1) for
    micro-batch i of PipeDream, and not below 0.  double: that of the step before its own.

    Chapter: schedules (eq-stash)
    """
    s = _stage(schedule, stage)
    if schedule.weights == "stash":
        met: dict[int, int] = {}
        for kind, i, newest in _passes(schedule, s):
            if kind == "F":
                met.setdefault(i, newest)
        return [met[i] for i in range(schedule.micro_batches)]
    late = range(-1, schedule.micro_batches // schedule.accumulate)
    return [max(late[i // schedule.accumulate], 0) for i in range(schedule.micro_batches)]


def versions_kept(schedule: Schedule, *, stage: int = 0) -> int:
    """The most versions of its weights that a stage keeps at once: the newest, and those of
    micro-batches in flight.

    PipeDream: p - s.  2BW: 2.  With a flush: 1 (Narayanan et al. 2019, 2021).

    Chapter: schedules (eq-stash)
    """
    met, alive, most = versions(schedule, stage=stage), Counter[int](), 1
    if schedule.weights == "flush":
        return 1
    for kind, i, newest in _passes(schedule, int(stage)):
        alive[met[i]] += 1 if kind == "F" else -1
        most = max(most, len({newest, *+alive}))
    return most


def stable_rate(*, late: int) -> float:
    """The rate times curvature below which SGD whose gradients come `late` updates late converges:
    2 sin(pi / (2 (2 d + 1))), and so 2 for none.

    The limit of x(k+1) = x(k) - rate x(k-d), whose solutions z^k there have |z| = 1.

    Chapter: schedules (eq-stable)
    """
    return 2 * math.sin(math.pi / (2 * (2 * whole("late", late, least=0) + 1)))


def _stage(schedule: Schedule, stage: int) -> int:
    return below("stage", stage, instance("schedule", schedule, Schedule).stages)


def _passes(schedule: Schedule, s: int) -> Iterator[tuple[str, int, int]]:
    """(F or B, micro-batch, newest version before it) of a stage's passes; updates in between."""
    back: Counter[int] = Counter()
    chunks, finished = len(schedule.chunks_of(s)), 0
    for kind, i, _ in schedule.actions[s]:
        if kind != "I":  # the weights are needed until W has used what it left
            yield "F" if kind == "F" else "B", i, finished // schedule.accumulate
        if kind in "BW":
            back[i] += 1
            finished += back[i] == chunks
