"""Two clocks for a real pipeline: a virtual one, exact at any load of the machine, and a pace that
makes every action as long as you like.

The virtual clock shows what waits for what: an action starts when its rank is free and its message
is there, and a message carries the time at which it arrives (Lamport 1978).  What comes out is the
order that was executed, by the same `schedule.times.Times` as a simulation; it says nothing about
speed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.times import Times


class Done(NamedTuple):
    action: Action
    begin: float
    end: float


class VirtualClock:
    """One rank's time; `done` says when each action of the last run began and ended."""

    def __init__(self, times: Times, schedule: Schedule, stage: int):
        self.times, self.took = times, times.of(schedule)[stage]
        self.start()

    def start(self) -> None:
        """Begin a run, at 0."""
        self.now, self.done = 0.0, list[Done]()
        self.left: dict[int, float] = {}  # when the last message to each stage had left

    def run(self, action: Action, arrived: float) -> None:
        """Let an action pass, whose message arrived at this time."""
        begin = max(self.now, arrived)
        self.now = begin + self.took[action.kind][action.chunk]
        self.done.append(Done(action, begin, self.now))

    def leave(self, to: int) -> float:
        """When a message that is sent now arrives; a link carries one at a time."""
        self.left[to] = max(self.now, self.left.get(to, 0.0)) + self.times.sending
        arrival = self.left[to] + self.times.message
        self.now = arrival if self.times.blocking else self.now
        return arrival


@contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """Let what the block does take so long, by sleeping for the rest."""
    until = time.perf_counter() + seconds
    yield
    if (rest := until - time.perf_counter()) > 0:
        time.sleep(rest)
