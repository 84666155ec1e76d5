"""Both ends at once: mirrored stages, two copies of the model, and its refusals."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import check
from mathlib.schedule.dualpipe import dualpipe


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
