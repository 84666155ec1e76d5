"""What a schedule says of itself."""

import pytest

from mathlib.checks import InputError
from mathlib.layout import stage_layers
from mathlib.schedule.actions import Action, Schedule, looped, v_shaped

NOTHING = [[], []]  # two stages without actions


def test_where_the_chunks_are() -> None:
    assert looped(stages=3) == (0, 1, 2)
    assert looped(stages=2.0, chunks=2) == (0, 1, 0, 1)
    assert v_shaped(stages=3) == (0, 1, 2, 2, 1, 0)
    schedule = Schedule("loop", 2, [looped(stages=2, chunks=2)], NOTHING)
    assert (schedule.stages, schedule.model_chunks) == (2, 4)
    assert schedule.chunks_of(0) == [0, 2] and schedule.chunks_of(1) == [1, 3]
    assert schedule.stage_of(1, 2) == 0


def test_two_directions_halve_the_micro_batches() -> None:
    schedule = Schedule("both", 4, [(0, 1), (1, 0)], NOTHING)
    assert [schedule.direction(i) for i in range(4)] == [0, 0, 1, 1]
    assert [schedule.stage_of(i, 0) for i in range(4)] == [0, 0, 1, 1]
    assert schedule.chunks_of(0) == schedule.chunks_of(1) == [0, 1]
    assert schedule.sends_to(Action("F", 0, 0)) == 1 and schedule.sends_to(Action("F", 2, 0)) == 0


@pytest.mark.parametrize(
    ("action", "source", "target"),
    [
        (("F", 0, 0), None, 1),
        (("F", 1, 1), 0, None),  # chunk 2 is on the same stage
        (("F", 1, 2), None, 0),
        (("F", 0, 3), 1, None),
        (("B", 0, 3), None, 1),
        (("B", 0, 2), 0, None),
        (("I", 0, 1), None, 0),
        (("B", 0, 0), 1, None),
        (("W", 0, 1), None, None),
    ],
)
def test_what_an_action_receives_and_sends(action, source, target) -> None:
    schedule = Schedule("v", 2, [v_shaped(stages=2)], NOTHING)
    assert schedule.receives_from(Action(*action)) == source
    assert schedule.sends_to(Action(*action)) == target


def test_the_layers_of_a_chunk_are_those_of_the_layout() -> None:
    schedule = Schedule("loop", 2, [looped(stages=4, chunks=2)], [[], [], [], []])
    held = [[i for c in schedule.chunks_of(s) for i in schedule.layers_of(c, 16)] for s in range(4)]
    assert held == stage_layers(16, 4, 2) and held[0] == [0, 1, 8, 9]
    with pytest.raises(
        InputError, match="layers = 12: expected a multiple of the model's 8 chunks"
    ):
        schedule.layers_of(0, 12)
    with pytest.raises(InputError, match="chunk = 8: expected 0 to 7"):
        schedule.layers_of(8, 16)


def test_an_update_takes_all_micro_batches_unless_said() -> None:
    assert Schedule("x", 6.0, [(0, 1)], NOTHING).accumulate == 6
    some = Schedule("x", 6, [(0, 1)], NOTHING, weights="double", accumulate=3.0)
    assert (some.accumulate, type(some.accumulate), some.weights) == (3, int, "double")
    assert str(Action("F", 3, 2)) == "F3 of chunk 2"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"micro_batches": 0}, "micro_batches = 0"),
        ({"placements": [(0, 2)]}, "placements = 2: expected one of 0, 1"),
        ({"placements": []}, "placements"),
        ({"placements": [()]}, "placements"),
        ({"placements": [(0, 1), (1,)]}, "all of as many chunks"),
        ({"placements": [(0, 1), (1, 0)], "micro_batches": 3}, "there are 3"),
        ({"actions": 3}, "actions"),
        ({"weights": "flash"}, "did you mean flush"),
        ({"accumulate": -1}, "accumulate"),
    ],
)
def test_a_schedule_that_cannot_speak_of_itself_is_refused(changed, said) -> None:
    right = {"name": "x", "micro_batches": 2, "placements": [(0, 1)], "actions": NOTHING}
    with pytest.raises(InputError, match=said):
        Schedule(**right | changed)
