"""The planner on six published sweeps with 273 layouts: which ran, and how long a step took.

Its constants were fitted to a few of them; the others, called new, say how good it is.
"""

from functools import cache
from statistics import median, quantiles
from typing import NamedTuple

from mathlib.plan.calibration import interval
from mathlib.plan.room import Room, find_keeps
from mathlib.plan.sweeps import Sweep, Trial, find_sweep, names
from mathlib.trials.planning import LIMIT, PROGRAM, filled

LOOKED_AT = {"13b-8k-64": ("131702", "131682"), "13b-2k-64": ("132178",)}
CHANCES = ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1))
SAFE = 0.1  # chance of running out of memory that a careful choice takes


@cache
def every() -> list[Sweep]:
    return [find_sweep(name) for name in names()]


def counted_twice() -> dict[str, dict[str, float]]:
    """Bytes on the fullest GPU of three trials: what Megatron keeps, what their program does."""
    bars = {}
    for name, numbers in LOOKED_AT.items():
        one = find_sweep(name)
        for trial in [t for t in one.trials if t.name.endswith(numbers)]:
            said = f"{trial.name[-6:]}, {'ran' if trial.ran else 'died'}"
            bars[f"{said}: Megatron"] = filled(trial.layout, one)
            bars[f"{said}: its own"] = filled(trial.layout, one, find_keeps(PROGRAM))
    return bars


@cache
def needed() -> dict[str, list[tuple[float, bool]]]:
    """Bytes that each trial needs by two counts, and whether it ran."""
    rooms = [(one, Room(one.model, one.tokens)) for one in every()]
    return {
        "Megatron": [(room.total(t.layout), t.ran) for one, room in rooms for t in one.trials],
        "its own": [(one.needed(t), t.ran) for one, _ in rooms for t in one.trials],
    }


def wrong(count: str, limit: float = LIMIT) -> int:
    """Trials of which "it fits" or "it does not" is false."""
    return sum((size <= limit) != ran for size, ran in needed()[count])


def least_wrong(count: str) -> int:
    """At the limit that errs least."""
    return min(wrong(count, size) for size, _ in needed()[count])


def new(one: Sweep) -> list[Trial]:
    return [trial for trial in one.trials if not trial.fitted]


def unfitted(one: Sweep) -> list[Trial]:
    """New trials that ran, the quickest first."""
    return [trial for trial in new(one) if trial.ran]


def chances() -> list[list[str | int]]:
    """Rows of a table: new trials by the chance they were given of running out of memory, how many
    were expected to, how many did.
    """
    told = [(one.risk(trial), trial.ran) for one in every() for trial in new(one)]
    rows: list[list[str | int]] = []
    for low, high in CHANCES:
        own = [(risk, ran) for risk, ran in told if low <= risk < high]
        died = sum(not ran for _, ran in own)
        rows.append([f"{low:.0%} to {high:.0%}", len(own), f"{sum(r for r, _ in own):.0f}", died])
    return rows


class Held(NamedTuple):
    """A sweep's new runs beside their predictions."""

    title: str
    runs: int
    error: float  # median
    worst: float
    regret: float  # of the quickest as predicted, had one known what runs
    safe: int  # new layouts with a small chance of running out of memory
    ran: bool  # whether the quickest of these as predicted ran
    slower: float  # than the quickest run of all


def held(one: Sweep) -> Held:
    """The planner first predicts each run; then it chooses without knowing what runs."""
    timed = unfitted(one)
    guess = [one.predicted(t) for t in timed]
    errors = [abs(T / t.seconds - 1) for T, t in zip(guess, timed, strict=True)]
    known = min(timed, key=one.predicted).seconds / timed[0].seconds - 1
    safe = [t for t in new(one) if one.risk(t) < SAFE]
    pick = min(safe, key=one.predicted)
    slower = pick.seconds / one.timed[0].seconds - 1
    counts = len(timed), median(errors), max(errors), known, len(safe)
    return Held(one.title, *counts, pick.ran, slower)


def three(one: Sweep) -> dict[str, tuple[float, float]]:
    """Predicted and published seconds of the quickest, a middle and the slowest new run."""
    runs = unfitted(one)
    some = {"the quickest": runs[0], "in the middle": runs[len(runs) // 2], "the slowest": runs[-1]}
    return {name: (one.predicted(trial), trial.seconds) for name, trial in some.items()}


def lines() -> dict[str, list[tuple[float, float]]]:
    """Published and predicted seconds of every new run, by sweep, and where the two are equal."""
    found = {
        one.title.replace(" A100", "").replace(" tokens", ""): [
            (t.seconds, one.predicted(t)) for t in unfitted(one)
        ]
        for one in every()
    }
    ends = [min(x for line in found.values() for x, _ in line), 240.0]
    return found | {"equal": [(x, x) for x in ends]}


@cache
def alike() -> list[float]:
    """Published over predicted seconds of new runs of one program, some of whose siblings on the
    same cluster were fitted.
    """
    return [
        trial.seconds / one.predicted(trial)
        for one in every()
        for trial in unfitted(one)
        if trial.program == PROGRAM
    ]


def siblings() -> tuple[float, float]:
    """The 80% prediction interval of these, as multiples of a prediction."""
    low, *_, high = quantiles(alike(), n=10, method="inclusive")
    return low, high


def spread() -> list[list[str]]:
    """Rows of a table: the 80% interval of a step's time, by what other runs told."""
    low, high = siblings()
    rows = [("this program and cluster", low, high, len(alike()), 1)]
    for told, device in (("this GPU, another source", "a100-80gb"), ("not even the GPU", "mi250x")):
        one = interval(1.0, device=device)
        rows.append((told, one.low, one.high, one.runs, one.sources))
    return [[told, f"{a:.2f} to {b:.2f}", f"{n:,}", f"{m}"] for told, a, b, n, m in rows]
