"""What stops a job and how it goes on: published runs, spares, stragglers, and chance played out.

n devices · T time in seconds that was watched
`goodput` has the closed formulas; `played_out` is the same job, failure by failure.
"""

import math
import random
from collections.abc import Callable
from statistics import NormalDist

from mathlib.checks import InputError, flag, non_negative, positive, whole
from mathlib.parts import Parts
from mathlib.plan.goodput import Interrupted
from mathlib.records import dataclass, field
from mathlib.specs import row_as, table

STEPS = 4000  # of the sum that stands for an integral


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


def records() -> list[str]:
    """All runs, in the order of the data file.

    Chapter: planning
    """
    return list(table("interruptions"))


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


def slowest(*, devices: int, spread: float) -> float:
    """Expected time of the slowest of n devices over their mean, when each step's times scatter by
    chance (normal, standard deviation `spread` of the mean): 1 + spread * integral of the quantile
    of u^(1/n), u from 0 to 1.

    All wait for it in every step. A device that is always slow costs its whole delay instead.

    Chapter: planning
    """
    n, sigma = whole("devices", devices), non_negative("spread", spread)
    normal = NormalDist()
    # u = 1 - e^-x, in equal steps of x, as the quantile is steep near 1
    edges = [30 * i / STEPS for i in range(STEPS + 1)]
    largest = 0.0
    for left, right in zip(edges, edges[1:], strict=False):
        weight = math.exp(-left) - math.exp(-right)
        logarithm = math.log1p(-math.exp(-(left + right) / 2)) / n  # of u^(1/n)
        largest -= weight * normal.inv_cdf(-math.expm1(logarithm))  # the tail: exact near 1
    return 1 + sigma * largest if n > 1 else 1.0


def chance_of_waiting(
    *, devices: int, device_time_between_failures: float, time_per_repair: float, spares: int
) -> float:
    """Chance that a failure finds no spare: that as many devices as there are spares are under
    repair, n repair / F of them on average (Poisson, as of a queue where all are served at once).

    A spare may be a node: then n and F are those of nodes.

    Chapter: planning
    """
    n, count = whole("devices", devices), whole("spares", spares, least=0)
    failures = positive("device_time_between_failures", device_time_between_failures)
    mean = n * positive("time_per_repair", time_per_repair) / failures
    terms = (math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count))
    return max(0.0, 1 - math.fsum(terms))


def spares_for(
    *,
    devices: int,
    device_time_between_failures: float,
    time_per_repair: float,
    chance: float,
) -> int:
    """The fewest spares with which at most this share of the failures finds none.

    Chapter: planning
    """
    allowed = positive("chance", chance)
    if allowed >= 1:
        raise InputError(f"chance = {chance!r}: expected a share below 1")
    mean = whole("devices", devices) * positive("time_per_repair", time_per_repair)
    mean /= positive("device_time_between_failures", device_time_between_failures)
    term, left, spares = math.exp(-mean), 1.0, 0
    if not term:
        raise InputError(
            f"time_per_repair = {time_per_repair:g}: {mean:.0f} devices are under repair at any "
            "time, expected 700 or fewer"
        )
    while left > allowed and spares < mean + 100 * math.sqrt(mean) + 100:
        left, spares = left - term, spares + 1
        term *= mean / spares
    return spares


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
