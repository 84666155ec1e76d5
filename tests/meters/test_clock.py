"""Clocks, in a time of our own."""

import time

import pytest
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import clock


class Time:
    """A time that passes only where an action says so."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.now = 0.0
        patch.setattr(time, "perf_counter", lambda: self.now)

    def takes(self, *seconds: float):
        """An action that takes the next of these each time."""
        left = iter(seconds)

        def action() -> None:
            self.now += next(left)

        return action


def test_actions_take_turns(monkeypatch):
    passing, turns = Time(monkeypatch), []

    def action(name: str, seconds: float):
        begin = passing.takes(*[seconds] * 3)
        return lambda: (turns.append(name), begin())

    found = clock.interleaved_seconds(action("a", 1), action("b", 2), repeat=2)
    assert found == [1, 2] and turns == ["a", "b"] * 3


def slowest(seconds: list[list[float]], enough: float) -> tuple[float, float]:
    """What is found, and the time that passed on this rank."""
    with pytest.MonkeyPatch.context() as patch:
        passing = Time(patch)
        action = passing.takes(*seconds[dist.get_rank()])
        return clock.slowest_rank_seconds(action, repeat=3, enough=enough), passing.now


def test_the_best_time_of_the_slowest_rank_is_told_to_all():
    seconds = [[100.0, 1.0, 5.0, 3.0], [100.0, 4.0, 2.0, 6.0]]  # slowest: 4, 5, 6
    assert launch.run(slowest, 2, seconds, 0) == [(4, 109), (4, 112)]


def test_a_time_that_is_good_enough_is_the_last():
    seconds = [[100.0, 9.0, 2.0, 1.0], [100.0, 9.0, 2.0, 1.0]]
    assert launch.run(slowest, 2, seconds, 2.5) == [(2, 111)] * 2


def test_a_median_is_of_five_unless_told_otherwise(monkeypatch):
    passing = Time(monkeypatch)
    assert clock.interleaved_seconds(passing.takes(100, 5, 1, 4, 2, 3)) == [3]


def slowest_of_one(seconds: list[float], **how) -> tuple[float, float, int]:
    """What is found, the time that passed, and how often the ranks met."""
    with pytest.MonkeyPatch.context() as patch:
        passing, met = Time(patch), []
        patch.setattr(dist, "barrier", lambda: met.append(passing.now))
        patch.setattr(dist, "all_reduce", lambda last, op: None)
        found = clock.slowest_rank_seconds(passing.takes(*seconds), **how)
        return found, passing.now, len(met)


def test_ranks_meet_before_each_try_and_there_are_three_of_them():
    assert slowest_of_one([100, 0.5, 0.25, 1]) == (0.25, 101.75, 3)


def test_a_time_as_good_as_enough_is_enough():
    assert slowest_of_one([100, 2, 1, 1], enough=2.0) == (2, 102, 1)
