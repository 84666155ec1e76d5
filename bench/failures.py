"""A hundred ranks killed at random moments, most in lives that our launcher starts, some under
torchrun: seconds for each death, and every run ends with the bits of one that nobody killed, its
lost steps those that are played out.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import rounds

from mathlib.trials import unequal_failures
from mathlib.trials.unequal_failures import Held, Plan, Told

EVERY, BETWEEN, RANKS = 5, 6.0, 2  # steps from save to save, from death to death on average
DEATHS = {"launcher": 16, "torchrun": 4}  # of a run; five runs of each are a hundred
WAYS = {"launcher": unequal_failures.by_launcher, "torchrun": unequal_failures.under_torchrun}


def killed(way: str, deaths: int, seed: int) -> tuple[Held, float]:
    """What came of a run, and the seconds for each of its deaths."""
    given = {"deaths": deaths, "every": EVERY, "between": BETWEEN, "ranks": RANKS}
    plan, took = unequal_failures.until_killed(**given, seed=seed), 0.0
    run: Callable[..., Told] = WAYS[way]

    def timed(plan: Plan, folder: Path, ranks: int) -> Told:
        nonlocal took
        begin = time.perf_counter()
        told = run(plan, folder, ranks)
        took = time.perf_counter() - begin
        return told

    with tempfile.TemporaryDirectory() as folder:
        found = unequal_failures.held(plan, Path(folder) / "run", timed, RANKS)
    if not (found.same and found.lost == found.played_out and found.deaths == deaths):
        raise AssertionError(f"{way}, seed {seed}: {found}")
    return found, took / deaths


def rows(quick: bool) -> Iterator[dict]:
    times: rounds.Times = {way: [] for way in WAYS}
    kills = lost = 0
    for seed in range(1 if quick else 5):
        for way, deaths in DEATHS.items():
            found, each = killed(way, 1 if quick else deaths, seed)
            times[way].append(each)
            kills, lost = kills + found.deaths, lost + found.lost
    yield rounds.row("a death", times, "launcher", "torchrun", kills=kills, lost_steps=lost)
