"""Every refusal says which stage, which action, and what it waits for."""

from dataclasses import replace

import pytest
from hypothesis import given
from schedules import executable

from mathlib.checks import InputError
from mathlib.schedule import check, flush
from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times


def changed(schedule: Schedule, stage: int, *words: str) -> Schedule:
    """The schedule with one stage's list written anew: "F0", "B0", of the stage's own chunk."""
    lists = [list(actions) for actions in schedule.actions]
    lists[stage] = [Action(word[0], int(word[1:]), stage) for word in words]
    return replace(schedule, actions=lists)


PLAIN = flush.one_forward_one_backward(stages=3, micro_batches=2)
FINE = [["F0", "F1", "B0", "B1"], ["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]


@pytest.mark.parametrize(
    ("stage", "words", "said"),
    [
        (1, ["F0", "F0", "F1", "B0", "B1"], "stage 1 has F0 of chunk 1 2 times: expected once"),
        (1, ["F0", "F1", "B0"], "stage 1 lacks B1 of chunk 1$"),
        (2, ["F0", "F1", "B0", "I1"], "stage 2 lacks W1 of chunk 2$"),
        (2, ["F0", "F1", "B0", "W1"], "stage 2 lacks I1 of chunk 2$"),
        (0, ["F0", "B0", "I0", "W0", "F1", "B1"], "B0 of chunk 0, and I or W of the same"),
        (
            0,
            ["F0", "F2", "B0", "B2"],
            "stage 0 has F2 of chunk 0: expected F, B, I, W, micro-batch",
        ),
        (0, ["F0", "F1", "B0", "X1"], "stage 0 has X1 of chunk 0: expected F, B, I, W"),
    ],
)
def test_every_action_once(stage, words, said) -> None:
    with pytest.raises(InputError, match=f"^schedule: {said}" if said[:5] == "stage" else said):
        check.validate(changed(PLAIN, stage, *words))


def test_an_action_of_someone_else_is_refused() -> None:
    lists = [list(actions) for actions in PLAIN.actions]
    lists[2].append(lists[1].pop())
    with pytest.raises(InputError, match="stage 2 has B1 of chunk 1, which is on stage 1"):
        check.validate(replace(PLAIN, actions=lists))
    lists[2][-1] = Action("B", 1, 3)
    with pytest.raises(InputError, match="stage 2 has B1 of chunk 3: .* chunks 0 to 2"):
        check.validate(replace(PLAIN, actions=lists))


def test_a_backward_before_its_forward_waits_for_itself() -> None:
    wrong = changed(PLAIN, 2, "B0", "F0", "F1", "B1")
    with pytest.raises(InputError) as refused:
        check.validate(wrong)
    assert str(refused.value) == (
        "schedule: the stages wait for each other: stage 0 waits at B0 of chunk 0 for B0 of chunk "
        "1 on stage 1; stage 1 waits at B0 of chunk 1 for B0 of chunk 2 on stage 2; "
        "stage 2 waits at B0 of chunk 2 for F0 of chunk 2, later in its own list"
    )


def test_the_weight_part_comes_after_the_input_part() -> None:
    check.validate(changed(PLAIN, 1, "F0", "F1", "I0", "I1", "W0", "W1"))
    with pytest.raises(InputError, match="stage 1 waits at W0 of chunk 1 for I0 of chunk 1, later"):
        check.validate(changed(PLAIN, 1, "F0", "F1", "W0", "I0", "I1", "W1"))


def test_a_circle_through_two_stages_is_told() -> None:
    two = flush.one_forward_one_backward(stages=2, micro_batches=2)
    # stage 0 wants to have gone back with 0 before it sends 1; stage 1 wants 1 before it goes back
    circle = changed(changed(two, 0, "F0", "B0", "F1", "B1"), 1, "F0", "F1", "B0", "B1")
    with pytest.raises(InputError) as refused:
        check.validate(circle)
    assert "stage 0 waits at B0 of chunk 0 for B0 of chunk 1 on stage 1" in str(refused.value)
    assert "stage 1 waits at F1 of chunk 1 for F1 of chunk 0 on stage 0" in str(refused.value)


def test_sends_that_block_need_their_receive() -> None:
    """Stage 1 takes the later message first: fine with isend, not when sends block."""
    two = flush.gpipe(stages=2, micro_batches=3)
    swapped = changed(two, 1, "F2", "F1", "F0", "B0", "B1", "B2")
    check.validate(swapped)
    with pytest.raises(InputError) as refused:
        check.validate(swapped, posted=1)
    assert str(refused.value) == (
        "schedule: the stages wait for each other: stage 0 sends what F0 of chunk 0 made until "
        "stage 1 receives it; stage 1 waits at F2 of chunk 1 for F2 of chunk 0 on stage 0"
    )
    assert check.receives_to_post(swapped) == 3
    check.validate(swapped, posted=3)
    assert check.tags_needed(swapped) and not check.tags_needed(two)


def test_what_is_right_passes() -> None:
    for stage, words in enumerate(FINE):
        check.validate(changed(PLAIN, stage, *words))
    assert check.receives_to_post(PLAIN) == 1
    for bad in (0, 1.5, "one", True):
        with pytest.raises(InputError, match="posted"):
            check.validate(PLAIN, posted=bad)


@given(executable())
def test_what_one_process_could_do_in_turn_many_can_do_at_once(schedule) -> None:
    check.validate(schedule)
    n = schedule.model_chunks
    found = simulate(schedule, Times(forward=[1] * n, backward=[2] * n))
    assert [len(row) for row in found.ends] == [len(row) for row in schedule.actions]
    assert found.total <= 3 * schedule.micro_batches * n, "never later than in turn"
    check.validate(schedule, posted=check.receives_to_post(schedule))
