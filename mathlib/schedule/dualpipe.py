"""A pipeline that runs from both ends at once.

p stages · m micro_batches
"""

from mathlib.checks import InputError, whole
from mathlib.schedule.actions import Schedule
from mathlib.schedule.zero_bubble import in_turn


def dualpipe(*, stages: int, micro_batches: int) -> Schedule:
    """DualPipe: half of the micro-batches enter at the first stage, half at the last, and in the
    middle each forward of one direction meets a backward of the other (DeepSeek-AI 2024,
    "DeepSeek-V3 technical report", section 3.2.1; eight phases of deepseek-ai/DualPipe).

    Every chunk of the model exists twice, on stages s and p - 1 - s.  Needs p even and m even, at
    least 2p.

    Chapter: schedules (eq-dualpipe)
    """
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    if p % 2:
        raise InputError(f"stages = {p}: stages meet in pairs, s and p - 1 - s; expected even")
    if m % 2 or m < 2 * p:
        raise InputError(
            f"micro_batches = {m}: half of them enter at each end, and they must reach the other; "
            f"expected an even number of at least 2 stages = {2 * p}"
        )
    ways = (range(m // 2), range(m // 2, m))  # from the first stage, from the last
    actions = []
    for s in range(p):
        sides = ((s, ways[0]), (p - 1 - s, ways[1]))  # chunk and micro-batches of each way
        near, far = sides if s < p // 2 else sides[::-1]  # the near end's come first
        words = _words(p // 2, min(s, p - 1 - s), m // 2 - p)
        actions.append(in_turn(words, (near[0], far[0]), (near[1], far[1])))
    placements = [tuple(range(p)), tuple(reversed(range(p)))]
    return Schedule("dualpipe", m, placements, actions)


def _words(half: int, s: int, more: int) -> list[str]:
    """What the stage does that stands `s` from the nearer end of a pipeline of 2 `half` stages."""
    inner = half - s - 1  # stages between this one and the middle
    words = ["F0"] * (2 * inner) + ["F0", "F1"] * (s + 1)  # filling from both ends
    words += ["I1", "W", "F1"] * inner
    words += ["F0", "B1", "F1", "B0"] * (more + s + 1)  # both ways at once
    words += ["B1", "F1", "B0"] * inner
    rest = ["1", "0"] * (s + 1)  # draining: the second half of these leave W for the end
    words += ["B" + side for side in rest[: s + 1]] + ["I" + side for side in rest[s + 1 :]]
    return words + ["W", "I0"] * inner + ["W"] * (s + 1)
