"""Interleaved and breadth-first against the figures by hand."""

import pytest

from mathlib.checks import InputError
from mathlib.layout import stage_layers
from mathlib.memory.activations import in_flight
from mathlib.schedule import check
from mathlib.schedule.interleaved import breadth_first, interleaved


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


def test_the_chunks_are_those_of_the_layout() -> None:
    """16 layers on 4 stages with 2 chunks: stage 0 has the layers 0, 1, 8, 9."""
    schedule = interleaved(stages=4, micro_batches=4, chunks=2)
    layers = [[2 * c + j for c in schedule.chunks_of(s) for j in (0, 1)] for s in range(4)]
    assert layers == stage_layers(16, 4, 2)


def test_a_number_that_does_not_divide_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="micro_batches = 10: .*a multiple of stages = 4$"):
        interleaved(stages=4, micro_batches=10)
    with pytest.raises(InputError, match="a multiple of round_size = 3$"):
        interleaved(stages=4, micro_batches=10, round_size=3)
    loose = interleaved(stages=4, micro_batches=10, round_size=5)
    check.validate(loose)
    assert loose == interleaved(stages=4, micro_batches=10, round_size=5.0)
    check.validate(interleaved(stages=4, micro_batches=3, round_size=3))


def test_rounds_shorter_than_the_pipeline_wait_for_themselves() -> None:
    """Why a multiple: in rounds of 2 on 4 stages, stage 3 wants what stage 0 may not yet begin."""
    with pytest.raises(InputError, match="wait for each other"):
        check.validate(interleaved(stages=4, micro_batches=8, round_size=2))
