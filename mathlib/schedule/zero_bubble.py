"""Orders that split the backward: I goes back at once, W fills what would be idle.

p stages · m micro_batches
Zero-bubble papers write B for what is I here.  "ZB1P" and "ZB2P" are other names of H1 and H2.
DualPipe splits it too, and runs from both ends at once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from mathlib.checks import InputError, whole
from mathlib.schedule.actions import Action, Schedule, looped, v_shaped
from mathlib.schedule.flush import alternate


def zb_h1(*, stages: int, micro_batches: int) -> Schedule:
    """ZB-H1: 1F1B whose stage s does W of a micro-batch s micro-batches later than I (Qi et al.
    2024, figure 3, top).

    Every stage holds p micro-batches, as the first of 1F1B does, waiting for I or for W.

    Chapter: schedules (eq-zero-bubble)
    """
    return _delayed("zb-h1", stages, micro_batches, times=1)


def zb_h2(*, stages: int, micro_batches: int) -> Schedule:
    """ZB-H2: twice as many forwards ahead, and W twice as late, so that no stage ever waits once it
    has begun (Qi et al. 2024, figure 3, bottom).

    Every stage holds 2p - 1 micro-batches.  From m = 2p - 1 on and at equal times, the bubble is
    what stages begin later, and it goes away when the next step follows without a flush.

    Chapter: schedules (eq-way-in)
    """
    return _delayed("zb-h2", stages, micro_batches, times=2)


def _delayed(name: str, stages: int, micro_batches: int, times: int) -> Schedule:
    """1F1B with `times` (p - s - 1) forwards ahead, and W `times` s micro-batches behind I."""
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    actions = []
    for s in range(p):
        inputs = [Action("I", i, s) for i in range(m)]
        order: list[Action] = []
        for action in alternate([Action("F", i, s) for i in range(m)], inputs, times * (p - s - 1)):
            order.append(action)
            late = action.micro_batch - times * s
            if action.kind == "I" and late >= 0:
                order.append(Action("W", late, s))
        order += [Action("W", i, s) for i in range(max(m - times * s, 0), m)]
        actions.append(order)
    return Schedule(name, m, [looped(stages=p)], actions)


def in_turn(words: Iterable[str], chunks: Sequence[int], batches: Sequence[range]) -> list[Action]:
    """Actions from words such as F0, I1, B0, W: the kind, and on which of the stage's two sides.

    Each word takes the next micro-batch of its side, of `batches`; forwards and backwards are
    counted apart.  W takes the one that waits longest for it, on its side if it names one.  What
    comes after the last micro-batch is left out.

    Chapter: pipeline
    """
    order, counts, waiting = [], Counter[str](), list[Action]()
    for word in words:
        kind, side = word[0], int(word[1:] or 0)
        if kind == "W":
            found = [one for one in waiting if len(word) == 1 or one.chunk == chunks[side]]
            if found:
                waiting.remove(found[0])
                order.append(found[0]._replace(kind="W"))
            continue
        way = f"{'F' if kind == 'F' else 'back'}{side}"
        if counts[way] < len(batches[side]):
            order.append(Action(kind, batches[side][counts[way]], chunks[side]))
            if kind == "I":
                waiting.append(order[-1])
        counts[way] += 1
    return order


def zb_v(*, stages: int, micro_batches: int) -> Schedule:
    """ZB-V: two chunks a stage, there and back, so that the last chunk is on the first stage and
    its backward can begin there (Qi et al. 2024).

    At equal times no stage waits once it has begun, and a stage holds at most 2p halves, the memory
    of 1F1B's first stage.

    Chapter: schedules (eq-way-in)
    """
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    n = max(m, 2 * p - 1)  # with fewer, those that are not there are left out
    actions = []
    for s in range(p):
        words = ["F0"] * (2 * (p - s) - 1) + ["F1", "F0"] * s  # warm-up
        words += ["F1", "I1", "W1"] * (p - s)
        words += ["F0", "I0", "W0", "F1", "I1", "W1"] * (n - p)  # steady state
        words += ["I0", "I1"] * s + ["I0", "W0"] * (p - s)  # cool-down
        words += ["W1"] * s + ["W0"] * s
        actions.append(in_turn(words, (s, 2 * p - 1 - s), (range(m), range(m))))
    return Schedule("zb-v", m, [v_shaped(stages=p)], actions)


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
