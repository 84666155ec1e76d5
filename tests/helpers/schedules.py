"""Schedules that nobody designed, and that can be executed all the same."""

from hypothesis import strategies as st

from mathlib.schedule.actions import Action, Schedule


def ready(done: set[Action], one: Action, chunks: int, split: set[tuple[int, int]]) -> bool:
    """Whether what an action needs has been done."""
    kind, i, c = one
    if kind == "W":
        return ("I", i, c) in done
    if kind == "F":
        return not c or ("F", i, c - 1) in done
    behind = ("I" if (i, c + 1) in split else "B", i, c + 1)
    return ("F", i, c) in done and (c + 1 == chunks or behind in done)


@st.composite
def executable(draw: st.DrawFn, most_stages: int = 4) -> Schedule:
    """Any placement, any mixture of B with I and W, any order in which one process could do it."""
    p, m = draw(st.integers(1, most_stages)), draw(st.integers(1, 4))
    placement = draw(st.lists(st.integers(0, p - 1), min_size=1, max_size=6))
    pairs = [(i, c) for i in range(m) for c in range(len(placement))]
    split = {pair for pair in pairs if draw(st.booleans())}
    left = [Action("F", *pair) for pair in pairs]
    left += [Action(kind, *pair) for pair in pairs for kind in ("IW" if pair in split else "B")]
    actions: list[list[Action]] = [[] for _ in range(p)]
    done: set[Action] = set()
    while left:
        free = [one for one in left if ready(done, one, len(placement), split)]
        one = draw(st.sampled_from(free))
        left.remove(one)
        done.add(one)
        actions[placement[one.chunk]].append(one)
    return Schedule("any", m, [placement], actions)
