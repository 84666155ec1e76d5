"""Interleaved and breadth-first against the figures by hand."""

import pytest

from mathlib.checks import InputError
from mathlib.memory.activations import in_flight
from mathlib.schedule import check
from mathlib.schedule.interleaved import breadth_first, interleaved
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times


def said(schedule, stage: int) -> str:
    """A stage's actions, the chunk behind the micro-batch: F0.0 F1.0 F0.2."""
    return " ".join(f"{kind}{i}.{c}" for kind, i, c in schedule.actions[stage])


def most_alive(actions) -> int:
    """The most forwards that had not yet gone back."""
    alive, most = 0, 0
    for kind, _, _ in actions:
        alive += {"F": 1, "I": 0}.get(kind, -1)
        most = max(most, alive)
    return most


def test_two_stages_two_chunks_by_hand() -> None:
    schedule = interleaved(stages=2, micro_batches=2, chunks=2)
    assert said(schedule, 0) == "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0"
    assert said(schedule, 1) == "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1"
    wide = breadth_first(stages=2, micro_batches=2, chunks=2)
    assert said(wide, 0) == "F0.0 F1.0 F0.2 F1.2 B1.2 B0.2 B1.0 B0.0"
    assert said(wide, 1) == "F0.1 F1.1 F0.3 F1.3 B1.3 B0.3 B1.1 B0.1"


def test_rounds_of_p_come_one_after_the_other() -> None:
    schedule = interleaved(stages=2, micro_batches=4, chunks=2)
    forwards = [word for word in said(schedule, 0).split() if word[0] == "F"]
    assert " ".join(forwards) == "F0.0 F1.0 F0.2 F1.2 F2.0 F3.0 F2.2 F3.2"


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("v", [1, 2, 3, 4])
def test_a_stage_holds_what_the_formula_of_memory_says(p, v) -> None:
    for m in (p, 2 * p, 5 * p):
        schedule = interleaved(stages=p, micro_batches=m, chunks=v)
        for s in range(p) if v > 1 else ():
            wanted = in_flight(pipeline=p, micro_batches=m, chunks=v, stage=s)
            assert most_alive(schedule.actions[s]) == wanted * v
        wide = breadth_first(stages=p, micro_batches=m + 1, chunks=v)
        assert {most_alive(actions) for actions in wide.actions} == {(m + 1) * v}
        check.validate(wide)
        check.validate(schedule)


def test_a_number_that_does_not_divide_is_refused_with_the_reason() -> None:
    with pytest.raises(
        InputError, match="micro_batches = 10: .*a multiple of stages = 4, or a round"
    ):
        interleaved(stages=4, micro_batches=10)
    for size in (1, 3, 7, 8):  # too short; 7 leaves 3, 8 leaves 2
        with pytest.raises(InputError, match=f"round_size = {size}: .*expected at least 4"):
            interleaved(stages=4, micro_batches=10, round_size=size)


@pytest.mark.parametrize("size", [4, 5, 6, 8, 10, 20])
@pytest.mark.parametrize("v", [1, 2, 3])
def test_rounds_of_your_own_need_not_divide(size, v) -> None:
    """P08 says a multiple of the stages: with rounds of 5 or 6 + 4, 10 run on 4, the bubble the
    same and more held.
    """
    m = 20 if size in (4, 8) else 10
    schedule = interleaved(stages=4, micro_batches=m, chunks=v, round_size=size)
    check.validate(schedule)
    found = simulate(schedule)
    assert found.idle / 4 == pytest.approx(3 * 3 / v)
    assert found.peak(0) * v == min(6 + (v - 1) * size + 1, m * v)


@pytest.mark.parametrize(("p", "v"), [(2, 3), (4, 2), (8, 4)])
def test_half_as_far_ahead_takes_as_long_while_messages_are_free(p, v) -> None:
    near, far = (
        interleaved(stages=p, micro_batches=3 * p, chunks=v, ahead=ahead) for ahead in (1, 2)
    )
    check.validate(near)
    assert simulate(near).total == pytest.approx(simulate(far).total)
    assert simulate(near).peak(0) == pytest.approx(p)
    assert simulate(far).peak(0) > p + 0.3
    slow = Times(message=0.1 / v)
    assert simulate(near, slow).total > simulate(far, slow).total + 0.05
    with pytest.raises(InputError, match="ahead = 3: .*expected 1 or 2"):
        interleaved(stages=p, micro_batches=3 * p, chunks=v, ahead=3)


def test_one_round_may_be_shorter_than_the_pipeline() -> None:
    check.validate(interleaved(stages=4, micro_batches=3, round_size=3))
    check.validate(interleaved(stages=4, micro_batches=1, round_size=4))
