"""Twice the GPUs when something breaks every day: the time of a job as a multiple of the time on
half of them.

Seconds. On twice the GPUs a job fails every `DAY`, on half of them every two days.
"""

from functools import partial
from typing import Any, NamedTuple

from mathlib.plan import goodput
from mathlib.plan.interruptions import Record, find_record
from mathlib.trials.planning import META, OPT, SAVE
from mathlib.trials.planning_scaling import DAY, HOUR

CASES = {  # seconds between saves, and until a failed job goes on
    "a save an hour, 15 minutes to go on": (HOUR, HOUR / 4),
    "a save a day, 8 hours to go on: a night": (DAY, 8 * HOUR),
    "a save an hour, four days to go on": (HOUR, 4 * DAY),
    "a save every five days, a night": (5 * DAY, 8 * HOUR),
}


def twice(every: float, restart: float, again: bool) -> float:
    """Time with twice the GPUs as a multiple of the time before; again: whether they break while
    the job is down, too.
    """
    law = goodput.time_for if again else goodput.time_if_waits_are_safe
    saved = {"time_between_saves": every, "time_per_save": SAVE, "time_per_failure": restart}
    expected = partial(law, seconds=1.0, **saved)
    many, few = (expected(time_between_failures=times * DAY).total for times in (1, 2))
    return many / few / 2


class Broke(NamedTuple):
    """A run that broke daily."""

    run: Record
    repair: float  # seconds that a failure cost beyond lost work, at most
    half: float  # its time as a multiple of that with half of its GPUs


def broke() -> list[Broke]:
    """Two published runs; failures come only while they train."""
    return [_broke(find_record(name)) for name in (OPT, META)]


def _broke(run: Record) -> Broke:
    between = run.time_between_failures * run.effective
    often: dict[str, Any] = {"time_per_save": SAVE, "fails_while_down": False}
    lost = goodput.repair_for(goodput=run.effective, time_between_failures=between, **often)
    half = goodput.time_on_more(
        devices=run.devices // 2,
        factor=2,
        device_time_between_failures=between * run.devices,
        time_per_failure=lost,
        **often,
    )
    return Broke(run, lost, half)
