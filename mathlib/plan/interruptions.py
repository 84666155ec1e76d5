"""What stops a job and how it goes on: published runs, and chance played out.

n devices · T time in seconds that was watched
`goodput` has the closed formulas; `played_out` is the same job, failure by failure.
"""

import random
from collections.abc import Callable

from mathlib.checks import flag, positive, whole
from mathlib.parts import Parts
from mathlib.plan.goodput import Interrupted
from mathlib.records import dataclass, field
from mathlib.specs import row_as


@dataclass(frozen=True)
class Record:
    """What a run's own people counted."""

    name: str
    devices: int
    seconds: float  # that were watched
    failures: int  # unplanned stops
    planned: int  # stops for upkeep
    manual: int  # of the failures, those that a person repaired
    effective: float  # share of the time that trained
    at_least: bool  # `effective` is a lower bound
    storage: float = 0.0  # bytes/s that all devices together can save; 0 where nobody says
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    @property
    def time_between_failures(self) -> float:
        """Of the job."""
        return self.seconds / self.failures

    @property
    def device_time_between_failures(self) -> float:
        """Of one device."""
        return device_time(devices=self.devices, seconds=self.seconds, failures=self.failures)


def find_record(name: str) -> Record:
    """A run by its name in interruptions.toml.

    Chapter: planning
    """
    return row_as(Record, "interruptions", name, called="record")


def device_time(*, devices: int, seconds: float, failures: int) -> float:
    """Seconds between the failures of one device: n T / failures.

    Chapter: planning
    """
    n, T = whole("devices", devices), positive("seconds", seconds)
    return n * T / whole("failures", failures)


def played_out(
    *,
    seconds: float,
    time_between_saves: float,
    time_per_save: float,
    time_between_failures: float,
    time_per_failure: float = 0.0,
    time_behind: float = 0.0,
    fails_while_down: bool = True,
    seed: int = 0,
) -> Parts:
    """The run of `goodput.time_for`, failure by failure: one seeded drawing of chance.

    Chapter: planning
    """
    run = Interrupted(
        *(seconds, time_between_saves, time_per_save),
        *(time_between_failures, time_per_failure, time_behind),
    )
    draw = random.Random(whole("seed", seed, least=0))
    rate = 1 / run.time_between_failures
    again = flag("fails_while_down", fails_while_down)
    passed, trained = _played(run, lambda: draw.expovariate(rate), again)
    return run.parts("A run that saves and fails, played out", trained, passed)


def _played(run: Interrupted, chance: Callable[[], float], again: bool) -> tuple[float, float]:
    """Seconds that passed and seconds of work, until all of it is done."""
    clock = safe = 0.0  # now; work that is kept
    done = 0.0  # work that goes on, were nothing to fail
    pending: tuple[float, float] | None = None  # when the last save is safe, and what it keeps
    failure = chance()
    while done < run.seconds:
        end = clock + run.time_between_saves + run.time_per_save
        if pending and pending[0] <= min(end, failure):
            safe, pending = pending[1], None
        if failure >= end:
            clock, done = end, done + run.time_between_saves
            pending = clock + run.time_behind, done
        else:
            done, pending = safe, None
            clock, failure = _up_again(run, failure, chance, again)
    return clock, done


def _up_again(
    run: Interrupted, failure: float, chance: Callable[[], float], again: bool
) -> tuple[float, float]:
    """When training goes on after a failure, and when the next one comes."""
    ready = failure + run.time_per_failure
    following = (failure if again else ready) + chance()
    while following < ready:  # once more, before training goes on
        ready = following + run.time_per_failure
        following += chance()
    return ready, following
