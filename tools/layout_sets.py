"""Runs that differ in nothing but their layouts: what the layout that a prediction prefers costs,
and whether the order is right. Printed by `tools/calibrate.py`, each set with `--sets`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median

from mathlib.plan.published_runs import Published, alike

LEAST = 3  # runs of a set


@dataclass(frozen=True)
class Ranked:
    """A set, ranked by prediction."""

    source: str
    name: str
    runs: int
    regret: float  # how much slower the layout is that was predicted to be the best
    correlation: float  # of ranks, Spearman's


def ranked(guess: dict[str, float], runs: Iterable[Published]) -> list[Ranked]:
    """Every set of runs, of which `guess` has predicted seconds by name."""
    return [one_set(guess, same) for same in alike(runs) if len(same) >= LEAST]


def one_set(guess: dict[str, float], same: list[Published]) -> Ranked:
    first = same[0]
    chosen = min(same, key=lambda run: guess[run.name])
    regret = chosen.seconds / min(run.seconds for run in same) - 1
    name = f"{first.model.name}, {first.tokens} tokens, {first.layout.world} {first.device.name}"
    if first.precision != "half":
        name += f", {first.precision}"
    return Ranked(first.source, name, len(same), regret, spearman(same, guess))


def spearman(runs: list[Published], guess: dict[str, float]) -> float:
    """1 - 6 sum of squared differences of ranks / (n (n^2 - 1)); runs as quick as each other share
    their rank.
    """
    a = ranks([run.seconds for run in runs])
    b = ranks([guess[run.name] for run in runs])
    n = len(runs)
    return 1 - 6 * sum((i - j) ** 2 for i, j in zip(a, b, strict=True)) / (n * (n * n - 1))


def ranks(times: list[float]) -> list[float]:
    """The place of each, the mean of the places where several are equal."""
    return [
        sum(other < time for other in times) + (sum(other == time for other in times) - 1) / 2
        for time in times
    ]


def by_source(found: list[Ranked]) -> dict[str, list[Ranked]]:
    sources = defaultdict(list)
    for one in found:
        sources[one.source].append(one)
    return dict(sorted(sources.items(), key=lambda item: -len(item[1])))


def report(guess: dict[str, float], runs: list[Published], title: str, each: bool) -> None:
    """A line a source, and one for all; a line a set where `each`."""
    found = ranked(guess, runs)
    print(f"{title:24}{'sets':>5}{'regret: median':>16}{'mean':>8}{'worst':>8}{'correlation':>13}")
    for source, own in [*by_source(found).items(), ("all", found)]:
        lost = [one.regret for one in own]
        print(
            f"{source:24}{len(own):5}{median(lost):16.1%}{mean(lost):8.1%}{max(lost):8.1%}"
            f"{median(one.correlation for one in own):13.2f}"
        )
        for one in own if each and source != "all" else []:
            print(f"  {one.name:54}{one.runs:5}{one.regret:8.1%}{one.correlation:7.2f}")
