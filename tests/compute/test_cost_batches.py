"""Sequences and tokens of a step, whatever way the ranks share it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import cost

few = st.integers(1, 8)


@given(few, few, few, few, few)
def test_sharding_does_not_change_the_batch(
    data: int, tensor: int, pipeline: int, b: int, m: int
) -> None:
    sequences = cost.global_batch(
        world=data * tensor * pipeline,
        tensor=tensor,
        pipeline=pipeline,
        per_replica=b,
        micro_batches=m,
    )
    assert sequences == data * b * m
    assert cost.scheduled_tokens([(sequences, 3), (2 * sequences, 1)], 7) == 5 * 7 * sequences


def test_tokens_are_sequences_times_their_length() -> None:
    assert cost.global_batch(world=16, per_replica=2, tensor=2, context=4) == 4
    assert cost.batch_tokens(tokens=100, world=16, per_replica=2, tensor=2, context=4) == 400


def test_a_batch_that_grows() -> None:
    by_step = sum([512 * 2048] * 3 + [1024 * 2048] * 2)
    assert cost.scheduled_tokens([(512, 3), (1024, 2)], 2048) == by_step


def test_ranks_that_cannot_be_shared_out_are_refused() -> None:
    with pytest.raises(InputError, match="does not divide world = 12"):
        cost.global_batch(world=12, tensor=8, per_replica=1)


@pytest.mark.parametrize("schedule", [[], [(512,)], [(512, 2, 3)], [(0, 1)], [(512, 1.5)], 7])
def test_a_schedule_is_rows_of_two(schedule: object) -> None:
    with pytest.raises(InputError, match="schedule"):
        cost.scheduled_tokens(schedule, 2048)  # type: ignore[arg-type]
