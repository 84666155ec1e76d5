"""Split backwards: the order in which W follows I, and how much waits for it."""

import pytest

from mathlib.schedule import check
from mathlib.schedule.zero_bubble import in_turn, zb_h1, zb_h2, zb_v


def said(schedule, stage: int) -> str:
    return " ".join(f"{a.kind}{a.micro_batch}" for a in schedule.actions[stage])


def most_alive(actions) -> int:
    """The most forwards whose W was still to come."""
    alive, most = 0, 0
    for kind, _, _ in actions:
        alive += {"F": 1, "I": 0}.get(kind, -1)
        most = max(most, alive)
    return most


def test_h1_by_hand() -> None:
    schedule = zb_h1(stages=3, micro_batches=4)
    assert said(schedule, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3"
    assert said(schedule, 1) == "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3"
    assert said(schedule, 2) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"


def test_h2_by_hand() -> None:
    schedule = zb_h2(stages=2, micro_batches=4)
    assert said(schedule, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3"
    assert said(schedule, 1) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
def test_what_waits_for_w_is_the_same_on_every_stage(p) -> None:
    for m in (2 * p, 2 * p + 3, 4 * p):
        h1, h2 = zb_h1(stages=p, micro_batches=m), zb_h2(stages=p, micro_batches=m)
        assert {most_alive(actions) for actions in h1.actions} == {p}, "as 1F1B's first stage"
        assert {most_alive(actions) for actions in h2.actions} == {2 * p - 1}
        vee = zb_v(stages=p, micro_batches=m)
        assert {most_alive(actions) for actions in vee.actions} == {2 * p}, "halves: p wholes"


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 9, 12])
def test_any_number_of_micro_batches_can_be_executed(p, m) -> None:
    for order in (zb_h1, zb_h2, zb_v):
        check.validate(order(stages=p, micro_batches=m))


def test_v_has_both_ends_on_the_first_stage() -> None:
    schedule = zb_v(stages=3, micro_batches=6)
    assert schedule.chunks_of(0) == [0, 5] and schedule.chunks_of(2) == [2, 3]
    last = " ".join(f"{kind}{i}.{c}" for kind, i, c in schedule.actions[2])
    assert last.startswith("F0.2 F0.3 F1.2 F1.3 F2.2 F2.3 I0.3 W0.3 F3.2 I0.2 W0.2")


def test_words_take_the_next_micro_batch_of_their_side() -> None:
    sides = (range(2), range(5, 7))
    words = ["F0", "F1", "F0", "I1", "W", "F0", "I0", "I0", "B1", "W0", "W", "W"]
    assert [f"{k}{i}.{c}" for k, i, c in in_turn(words, (3, 8), sides)] == (
        ["F0.3", "F5.8", "F1.3", "I5.8", "W5.8", "I0.3", "I1.3", "B6.8", "W0.3", "W1.3"]
    )
