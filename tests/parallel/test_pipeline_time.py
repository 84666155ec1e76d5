"""The virtual clock by hand: an action waits for its rank and for its message."""

import time

import pytest

from mathlib.checks import InputError
from mathlib.parallel.pipeline_time import Done, VirtualClock, at_least
from mathlib.schedule.actions import Action

F, B = Action("F", 0, 0), Action("B", 0, 0)


def test_an_action_starts_when_rank_and_message_are_there():
    clock = VirtualClock(lambda action: {"F": 1, "B": 2}[action.kind])
    clock.run(F, 0)
    clock.run(B, 4.5)
    clock.run(F, 2)
    assert clock.done == [Done(F, 0, 1), Done(B, 4.5, 6.5), Done(F, 6.5, 7.5)]


def test_costs_below_zero_are_refused():
    with pytest.raises(InputError, match="message = -1"):
        VirtualClock(lambda action: 1, message=-1)
    with pytest.raises(InputError, match="cost = -2"):
        VirtualClock(lambda action: -2).run(F, 0)


def test_a_block_takes_at_least_so_long():
    begin = time.perf_counter()
    with at_least(0.05):
        pass
    assert time.perf_counter() - begin >= 0.05  # a lower bound holds on a busy machine too
