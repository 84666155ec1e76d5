"""Two clocks for a real pipeline: a virtual one, exact at any load of the machine, and a pace that
makes every action as long as you like.

The virtual clock shows what waits for what: an action starts when its rank is free and its message
is there, and a message carries its sender's time (Lamport 1978).  It says nothing about speed.
"""

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

from mathlib.checks import non_negative
from mathlib.schedule.actions import Action

Cost = Callable[[Action], float]  # time units, or seconds, that an action takes


class Done(NamedTuple):
    action: Action
    start: float
    end: float


class VirtualClock:
    """One rank's time; `done` says when each action of the run began and ended."""

    def __init__(self, cost: Cost, message: float = 0.0):
        self.cost, self.message = cost, non_negative("message", message)
        self.now, self.done = 0.0, list[Done]()

    def run(self, action: Action, arrived: float) -> None:
        """Let an action pass, whose message arrived at this time."""
        start = max(self.now, arrived)
        self.now = start + non_negative("cost", self.cost(action))
        self.done.append(Done(action, start, self.now))


@contextmanager
def at_least(seconds: float):  # type: ignore[no-untyped-def]
    """Let what the block does take so long, by sleeping for the rest."""
    until = time.perf_counter() + seconds
    yield
    if (rest := until - time.perf_counter()) > 0:
        time.sleep(rest)
