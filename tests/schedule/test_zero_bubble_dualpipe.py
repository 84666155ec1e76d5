"""Both ends at once: mirrored stages, two copies of the model, and its refusals."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import bubble, check
from mathlib.schedule.zero_bubble import dualpipe


@pytest.mark.parametrize("p", [2, 4, 6, 8])
@pytest.mark.parametrize("more", [0, 2, 6, 20])
def test_the_two_halves_mirror_each_other(p, more) -> None:
    m = 2 * p + more
    schedule = dualpipe(stages=p, micro_batches=m)
    check.validate(schedule)
    for s in range(p):
        other = [(kind, (i + m // 2) % m, c) for kind, i, c in schedule.actions[p - 1 - s]]
        assert list(schedule.actions[s]) == other
        assert schedule.chunks_of(s) == sorted({s, p - 1 - s})
        alive = most = 0
        for kind, _, _ in schedule.actions[s]:
            alive += {"F": 1, "I": 0}.get(kind, -1)
            most = max(most, alive)
        assert most == p + 1, "the table of DualPipe's page"


def test_two_stages_by_hand() -> None:
    schedule = dualpipe(stages=2, micro_batches=4)
    words = " ".join(f"{kind}{i}.{c}" for kind, i, c in schedule.actions[0])
    assert words == "F0.0 F2.1 F1.0 B2.1 F3.1 B0.0 B3.1 I1.0 W1.0"


@pytest.mark.parametrize(
    ("p", "m", "said"),
    [
        (3, 8, "stages = 3: .* expected even"),
        (4, 9, "micro_batches = 9: .* even number of at least 2 stages = 8"),
        (4, 6, "micro_batches = 6: .* at least 2 stages = 8"),
    ],
)
def test_what_does_not_meet_in_the_middle_is_refused(p, m, said) -> None:
    with pytest.raises(InputError, match=said):
        dualpipe(stages=p, micro_batches=m)


def paired(schedule, s: int) -> list[tuple]:
    """Stage s with each forward and the backward right behind it as one, which overlaps them; the
    first such pair of the two middle stages is left alone, as in DualPipe's own program.
    """
    row, units = list(schedule.actions[s]), list[tuple]()
    alone = s in (schedule.stages // 2 - 1, schedule.stages // 2)
    while row:
        pair = len(row) > 1 and row[0].kind == "F" and row[1].kind == "B"
        take = 2 if pair and not alone else 1
        alone = alone and not pair
        units.append(tuple(row[:take]))
        del row[:take]
    return units


def total(schedule, forward: float, pair: float) -> float:
    """Seconds of a step with F = I = W = forward, when a pair is one action of its own length."""
    todo = [paired(schedule, s) for s in range(schedule.stages)]
    took = {"F": forward, "I": forward, "W": forward, "B": 2 * forward}
    done: dict[tuple, float] = {}
    free, last = [0.0] * schedule.stages, schedule.model_chunks - 1
    while any(todo):
        for s, units in enumerate(todo):
            needs = [
                ("F", i, c - 1) if kind == "F" else ("B", i, c + 1)
                for kind, i, c in (units[0] if units else ())
                if (kind == "F" and c) or (kind in "BI" and c < last)
            ]
            if units and all(need in done for need in needs):
                unit = units.pop(0)
                long = pair if len(unit) == 2 else took[unit[0].kind]
                free[s] = max([free[s], *(done[need] for need in needs)]) + long
                for kind, *of in unit:
                    done["B" if kind == "I" else kind, *of] = free[s]
    return max(free)


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 8), (4, 16), (6, 24), (8, 32)])
@pytest.mark.parametrize("pair", [6, 5, 4])
def test_the_formula_of_dualpipes_page_holds_where_pairs_are_one(p, m, pair) -> None:
    """(p/2 - 1) (F&B + B - 3W), idle on the stage with most pairs, at F = I = W = 2 and B = 4; done
    one after the other, a pair hands its forward on sooner, and less is idle.
    """
    schedule, inner = dualpipe(stages=p, micro_batches=m), p // 2 - 1
    pairs = max(sum(len(unit) == 2 for unit in paired(schedule, s)) for s in range(p))
    idle = total(schedule, 2, pair) - pairs * pair - (m - pairs) * 6
    assert idle == inner * (pair + 4 - 3 * 2)
    of = {"order": "dualpipe", "stages": p, "micro_batches": m, "forward": 2, "backward": 4}
    assert bubble.idle(**of) == inner * 2
