"""Published runs that differ in nothing but their layouts: what a way to decide would have cost.

Seconds of a step. A set has at least LEAST runs that ended, on two levels or more of
`plan.simplest`. Who decides sees all layouts of a set, what each is predicted to take and the
chance that it runs out of memory; not what anybody measured.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from statistics import mean, median
from typing import NamedTuple

from mathlib.plan.calibration import find_rates, out_of_memory
from mathlib.plan.machine import Machine
from mathlib.plan.published_runs import Published, alike, published, sweeps
from mathlib.plan.simplest import LEVELS, TOLERANCE, level, simplest
from mathlib.plan.step import seconds_of
from mathlib.records import dataclass

LEAST = 3
RISK = 0.2  # of running out of memory, that one takes
RESERVE = 4e9
ANY = 1e9  # a tolerance that looks at no time
ZERO = list(LEVELS)[:2]  # levels without any other axis
WAYS = ("the simplest within 5%", "the quickest as predicted", "the simplest that fits")


@dataclass(frozen=True)
class Decided:
    """A set of runs, and how much slower than its quickest each way to decide is."""

    source: str
    name: str
    ended: int  # runs
    failed: int  # for want of memory
    best: str  # level of the quickest
    taken: str  # level of the simplest within the tolerance
    lost: dict[str, float]  # by way; infinite: what it takes ran out of memory
    zero: float | None  # the best of data parallelism and ZeRO, with hindsight; None: none ended


@cache
def sets() -> list[list[Published]]:
    """Runs that are alike in everything but their layouts."""
    every = [*published()[0], *sweeps()]
    told = [run for run in every if run.told and (run.seconds or not run.fits)]
    return [same for same in alike(told) if _choice(same)]


def _choice(same: list[Published]) -> bool:
    ended = [run for run in same if run.fits]
    return len(ended) >= LEAST and len({level(run.layout) for run in ended}) > 1


def predicted(run: Published) -> float:
    """Seconds of a step."""
    rates = find_rates(run.device.name, run.program, precision=run.precision)
    on = Machine(run.model, run.device, run.cluster, rates, run.tokens)
    return sum(seconds_of(on, run.layout))


def risk(run: Published) -> float:
    """The chance of running out of memory."""
    memory = run.device.room - RESERVE
    return out_of_memory(needed=run.needed, memory=memory, program=run.program)


def decided(same: list[Published], tolerance: float = TOLERANCE) -> Decided:
    """What each way takes of a set, and what that costs."""
    safe = [run for run in same if risk(run) < RISK] or [min(same, key=risk)]
    told = [(run.layout, predicted(run), run) for run in safe]
    taken = [simplest(told, tol) for tol in (tolerance, 0.0, ANY)]
    ended = [run for run in same if run.fits]
    best = min(ended, key=lambda run: run.seconds)
    plain = [run.seconds for run in ended if level(run.layout) in ZERO]
    return Decided(
        best.source,
        _name(best),
        len(ended),
        len(same) - len(ended),
        level(best.layout),
        level(taken[0].layout),
        dict(zip(WAYS, [_lost(run, best) for run in taken], strict=True)),
        min(plain) / best.seconds - 1 if plain else None,
    )


def _lost(run: Published, best: Published) -> float:
    return run.seconds / best.seconds - 1 if run.fits else float("inf")


def _name(run: Published) -> str:
    return f"{run.model.name}, {run.tokens} tokens, {run.layout.world} {run.device.name}"


@cache
def all_decided() -> list[Decided]:
    """Every set."""
    return [decided(same) for same in sets()]


def summary(found: Iterable[Decided]) -> dict[str, tuple[float, float]]:
    """Median and mean of what is lost, by way and with hindsight by the best ZeRO."""
    every = list(found)
    lost = {way: [one.lost[way] for one in every] for way in WAYS}
    lost["the best ZeRO, with hindsight"] = [one.zero for one in every if one.zero is not None]
    return {way: (median(each), mean(each)) for way, each in lost.items() if each}


def outcomes() -> dict[str, tuple[int, int]]:
    """Layouts by level that ended and that ran out of memory, of sets in which some did."""
    found = {name: [0, 0] for name in LEVELS}
    for same in sets():
        if all(run.fits for run in same):
            continue
        for run in same:
            found[level(run.layout)][0 if run.fits else 1] += 1
    return {name: (ended, failed) for name, (ended, failed) in found.items()}


class Beside(NamedTuple):
    """Of a source's sets: the best layout with no axis but data beside the best of all others."""

    sets: int  # in which both ended
    longer: float  # median of how much longer the best ZeRO takes; below 0: it is quicker
    most: float
    quicker: int  # sets in which ZeRO is
    failed: int  # sets in which every ZeRO layout that was tried ran out of memory


def zero_beside_others() -> dict[str, Beside]:
    """By source; sets in which nobody tried ZeRO alone, or nothing else, are left out."""
    lost, failed = defaultdict[str, list[float]](list), Counter[str]()
    for same in sets():
        plain = [run for run in same if level(run.layout) in ZERO]
        others = [run.seconds for run in same if run.fits and level(run.layout) not in ZERO]
        ended = [run.seconds for run in plain if run.fits]
        if ended and others:
            lost[same[0].source].append(min(ended) / min(others) - 1)
        failed[same[0].source] += bool(plain) and not ended
    return {
        source: Beside(len(each), median(each), max(each), sum(x < 0 for x in each), failed[source])
        for source, each in lost.items()
    }


def fitted(same: list[Published]) -> bool:
    """Whether constants of the predictions were fitted to a run of a set."""
    return any(run in published()[0] for run in same)


TWICE = {"32-n-dp-2-tp-4-pp-32": 128, "64-n-dp-4-tp-4-pp-32": 64}  # micro-batches
LARGE = 64  # GPUs, from which on a run is no longer small


def by_size() -> dict[str, list[Decided]]:
    """Sets of small runs, of larger ones, and all."""
    found: dict[str, list[Decided]] = {"2 to 32 GPUs": [], "64 to 512 GPUs": []}
    small, large = found.values()
    for same, one in zip(sets(), all_decided(), strict=True):
        (large if same[0].layout.world >= LARGE else small).append(one)
    return found | {"all": all_decided()}


def dearest(many: int = 3) -> list[Decided]:
    """Sets in which the simplest within the tolerance loses most."""
    return sorted(all_decided(), key=lambda one: -one.lost[WAYS[0]])[:many]


def twice_as_many() -> dict[int, float]:
    """Seconds of two of the Playbook's runs, by GPUs: 80B, 4 tensor ranks, 32 stages, one batch."""
    names = {f"usp-80b-{n}-mb-1-ga-{m}-z-1" for n, m in TWICE.items()}
    runs = [run for run in published()[0] if run.name in names]
    return {run.layout.world: run.seconds for run in runs}
