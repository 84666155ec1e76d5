"""How far to trust the planner, source by source: `tools/trust.py`.

Only runs that no constant was fitted to: the half of every source that `calibrate.py` leaves out,
and the large sweeps. The floor is one share of the peak a device, fitted to the same half, on the
same runs. `kind` is Megatron where all runs of a source are dense and of that program's kind. A
source's error and regret are medians, and means beside them where few runs decide; `order` is the
median rank correlation of its sets, which differ in layout only. Memory is as the planner counts
it, nothing fitted, beside what the source calls its bytes.

Below stands how many of ten runs of a source lie in the intervals that the other sources give, each
source with the same weight, by program: where its device was known, and as if it had not been.

Then come the twins of the Ultra-Scale Playbook: layouts that it ran with ZeRO's stage 0 and with
stage 1, which exchange the same gradients. Who picks the layout that was quickest in the one stage
for the other knows more than any planner; what that loses is in the data.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean, median

sys.path.append(str(Path(__file__).resolve().parent))

import calibrate  # noqa: E402  (it says where the rest is)
import layout_sets  # noqa: E402
import left_out  # noqa: E402

from mathlib.plan.published_runs import Published, published, sweeps  # noqa: E402

AIMS = {"Megatron": 0.10, "other": 0.15}  # half of a source's runs shall be nearer
AIM_MEMORY = AIM_REGRET = 0.05
ALLOCATED = {"simumax"}  # whose bytes are those that were allocated


@dataclass(frozen=True)
class Trust:
    """A source's runs that no constant was fitted to; None: it has none to say."""

    source: str
    kind: str
    runs: int  # all that have a time and a layout
    unfitted: int
    error: float | None
    worst: float | None
    floor: float | None  # median error of one share of the peak a device, on the same runs
    memory: float | None  # median error where the source prints bytes
    sets: int
    regret: float | None
    mean_regret: float | None
    order: float | None

    @property
    def holds(self) -> dict[str, bool]:
        """The aims that this source can try, and whether they hold."""
        tried = {}
        if self.error is not None:
            tried["time"] = self.error <= AIMS[self.kind]
        if self.memory is not None and self.source in ALLOCATED:
            tried["memory"] = self.memory <= AIM_MEMORY
        if self.mean_regret is not None:
            tried["regret"] = self.mean_regret <= AIM_REGRET
        return tried


def told() -> list[Published]:
    return [run for run in [*published()[0], *sweeps()] if run.told]


def new(runs: Iterable[Published]) -> list[Published]:
    """Those that no constant was fitted to."""
    return [run for run in runs if run.name in fresh() or not calibrate.fitted_to(run)]


@cache
def fresh() -> frozenset[str]:
    return frozenset(run.name for run in sweeps())


@cache
def guess() -> dict[str, float]:
    table = calibrate.load()
    return {run.name: calibrate.predicted(table, run) for run in told()}


def errors(runs: list[Published]) -> list[float]:
    return [abs(guess()[run.name] / run.seconds - 1) for run in runs]


def floors(runs: list[Published]) -> list[float]:
    """Errors of one share of the peak a device, fitted to the runs that the constants have."""
    return [abs(e) for e in calibrate.floor(runs, shares())]


@cache
def shares() -> dict[tuple[str, str], float]:
    return calibrate.shares(filter(calibrate.fitted_to, calibrate.timed()))


def trust(source: str) -> Trust:
    every = [run for run in told() if run.source == source]
    timed = [run for run in every if run.seconds]
    own = new(timed)
    off = errors(own)
    bytes_of = [abs(run.needed / run.memory - 1) for run in every if run.memory and run.fits]
    found = layout_sets.ranked(guess(), own)
    dense = all(r.program.startswith("megatron") and not r.model.experts for r in every)
    return Trust(
        source,
        "Megatron" if dense else "other",
        len(timed),
        len(own),
        middle(off),
        max(off, default=None),
        middle(floors(own)),
        middle(bytes_of),
        len(found),
        middle([one.regret for one in found]),
        mean(one.regret for one in found) if found else None,
        middle([one.correlation for one in found]),
    )


def middle(values: list[float]) -> float | None:
    return median(values) if values else None


def every_source() -> list[Trust]:
    """The largest first."""
    found = [trust(source) for source in {run.source for run in told()}]
    return sorted(found, key=lambda one: (-one.unfitted, one.source))


@dataclass(frozen=True)
class Twins:
    """A set of layouts that ran twice, in one of the two stages."""

    devices: int
    layouts: int
    oracle: float  # regret of who knows how long each took in the other stage
    planner: float  # regret of the prediction


def pairs() -> list[tuple[Published, Published]]:
    """Runs of the Playbook that differ in ZeRO's stage only, 0 and 1."""
    found = defaultdict(list)
    for run in told():
        if run.source == "playbook" and run.seconds:
            found[run.same_but_layout, replace(run.layout, zero=0, shard=0)].append(run)
    both = [sorted(own, key=lambda run: run.layout.zero) for own in found.values()]
    return [(own[0], own[1]) for own in both if len(own) == 2]


def twins() -> list[Twins]:
    """Both ways of every set with three layouts or more."""
    sets = defaultdict(list)
    for pair in pairs():
        sets[pair[0].same_but_layout].append(pair)
    found = []
    for own in sets.values():
        for one, other in ((0, 1), (1, 0)) if len(own) >= layout_sets.LEAST else ():
            least = min(pair[one].seconds for pair in own)
            by_other = min(own, key=lambda pair: pair[other].seconds)[one]
            by_guess = min(own, key=lambda pair: guess()[pair[one].name])[one]
            lost = (by_other.seconds / least - 1, by_guess.seconds / least - 1)
            found.append(Twins(own[0][0].layout.world, len(own), *lost))
    return found


def apart(among: Iterable[tuple[Published, Published]]) -> list[float]:
    """How much longer the slower of two twins took."""
    times = [sorted((a.seconds, b.seconds)) for a, b in among]
    return [slow / quick - 1 for quick, slow in times]


def shown(value: float | None, form: str = ".1%") -> str:
    return "" if value is None else f"{value:{form}}"


def main() -> None:
    heads = ("runs", "new", "error", "worst", "floor", "memory", "sets", "regret", "mean", "order")
    print(f"{'source':15}{'kind':9}" + "".join(f"{head:>8}" for head in heads) + "  aims")
    rows = every_source()
    for one in rows:
        cells = [str(one.runs), str(one.unfitted), shown(one.error), shown(one.worst, ".0%")]
        cells += [shown(one.floor), shown(one.memory), str(one.sets or "")]
        cells += [shown(one.regret), shown(one.mean_regret), shown(one.order, ".2f")]
        aims = ", ".join(f"{aim}{'' if held else ' NOT'}" for aim, held in one.holds.items())
        print(
            f"{one.source:15}{one.kind:9}" + "".join(f"{cell:>8}" for cell in cells) + f"  {aims}"
        )
    for kind, aim in AIMS.items():
        print(kind, *sums([one for one in rows if one.kind == kind], aim))
    print(f"\n{'program':25}{'sources':>8}{'runs':>8}{'inside':>8}{'unseen':>8}")
    for row in left_out.by_program():
        cells = (row.sources, row.runs, shown(row.known, ".0%"), shown(row.unseen, ".0%"))
        print(f"{row.program or 'all':25}" + "".join(f"{cell:>8}" for cell in cells))
    both = twins()
    print(f"\n{len(pairs())} layouts of the Playbook in ZeRO's stages 0 and 1")
    for n in sorted({a.layout.world for a, _ in pairs()}):
        own = apart(pair for pair in pairs() if pair[0].layout.world == n)
        print(f"{n:4} cards: {len(own):3}, apart by {median(own):.1%}, at most {max(own):.0%}")
    print(
        f"{len(both)} sets of {sum(one.layouts for one in both)}: who knows the twin loses "
        f"{mean(one.oracle for one in both):.0%} in the mean, the planner "
        f"{mean(one.planner for one in both):.0%}"
    )


def sums(sources: list[Trust], aim: float) -> tuple[str, ...]:
    """All runs of some sources, and how many of these hold the aim."""
    rows = [one for one in sources if one.error is not None]
    names = {one.source for one in rows}
    own = new(run for run in told() if run.source in names and run.seconds)
    off, plain = errors(own), floors(own)
    half = f"runs: median {median(off):.1%}, mean {mean(off):.1%},"
    floor = f"floor {median(plain):.1%} and {mean(plain):.1%};"
    kept = sum(one.error <= aim for one in rows)
    return str(len(own)), half, floor, f"{kept} of {len(rows)} sources within {aim:.0%}"


if __name__ == "__main__":
    main()
