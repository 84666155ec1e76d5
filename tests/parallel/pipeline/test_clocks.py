"""The virtual clock by hand: an action waits for its rank and for its message."""

import time

from mathlib.parallel.pipeline.clocks import Done, VirtualClock, at_least
from mathlib.schedule.actions import Action
from mathlib.schedule.flush import gpipe
from mathlib.schedule.times import Times

F, B = Action("F", 0, 0), Action("B", 0, 0)
SCHEDULE = gpipe(stages=2, micro_batches=1)


def test_an_action_starts_when_rank_and_message_are_there():
    clock = VirtualClock(Times(), SCHEDULE, 0)
    for action, arrived in ((F, 0), (B, 4.5), (F, 2)):
        clock.run(action, arrived)
    assert clock.done == [Done(F, 0, 1), Done(B, 4.5, 6.5), Done(F, 6.5, 7.5)]
    clock.start()
    assert (clock.now, clock.done) == (0, [])


def test_a_message_leaves_behind_the_one_before_it():
    times = Times(message=0.5, size=6, bandwidth=2)
    clock = VirtualClock(times, SCHEDULE, 0)
    clock.run(F, 0)
    assert clock.leave(1) == 1 + 3 + 0.5
    assert clock.leave(1) == 1 + 3 + 3 + 0.5
    assert clock.leave(2) == 1 + 3 + 0.5  # a link of its own
    assert clock.now == 1
    clock = VirtualClock(Times(message=0.5, blocking=True), SCHEDULE, 0)
    assert clock.leave(1) == clock.now == 0.5


def test_a_block_takes_at_least_so_long():
    begin = time.perf_counter()
    with at_least(0.05):
        pass
    assert time.perf_counter() - begin >= 0.05  # a lower bound holds on a busy machine too
