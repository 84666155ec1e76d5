"""What the planner says of sources that no constant has seen: `tools/left_out.py [SOURCE ...]`.

Each source of published runs is left out once, all constants are fitted to half of the others', and
its runs are predicted: who plans a run of their own is such a source. A program or device that only
this source told of takes the constants of its stand-in. About a quarter of a minute a source; what
was found is kept in tests/plan/published/left_out.csv, and the planner's intervals with it.

multiple  measured / predicted; none where no other source told of the device
blind     the same, as if none had; least and blindest are the quickest that the device could be,
          over what was predicted, as mathlib.plan.step.interval has it
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).resolve().parent))

import calibrate  # noqa: E402  (it says where the rest is)

from mathlib.plan.calibration import Rates, reach_in  # noqa: E402
from mathlib.plan.published_runs import Published, sweeps  # noqa: E402
from mathlib.plan.step import least_seconds, seconds_of  # noqa: E402

FILE = calibrate.ROOT / "tests" / "plan" / "published" / "left_out.csv"
ROUNDS = 6  # of fitting; more change no multiple by a hundredth
USUAL = {one.name: one.default for one in fields(Rates)}
STAND_INS = {  # of a program that no other source ran: what its user would name instead
    **dict.fromkeys(("fsdp-eager", "composer", "deepspeed", "megatron-deepspeed-zero"), "fsdp"),
    **dict.fromkeys(("jax", "tpu"), "fsdp"),
}
STAND_IN = "megatron-core"
SHARE = 0.8  # of the measured times, inside the interval


@dataclass(frozen=True)
class LeftOut:
    """A run, predicted by constants that know nothing of its source."""

    source: str
    program: str
    name: str
    multiple: float | None
    least: float
    blind: float
    blindest: float


def runs() -> list[Published]:
    return calibrate.timed() + [run for run in sweeps() if run.told and run.seconds]


def others(source: str) -> list[Published]:
    """What is fitted to without it."""
    every = filter(calibrate.fitted_to, calibrate.timed())
    return [run for run in every if run.source != source]


def left_out(source: str) -> list[LeftOut]:
    """All runs of one source."""
    table = without(source)
    blind = table | {"devices": {"other": table["devices"]["other"]}}
    found = []
    for run in [run for run in runs() if run.source == source]:
        multiple, least = off(table, run)
        known = run.device.name in table["devices"]
        told = (run.source, run.program, run.name, multiple if known else None, least)
        found.append(LeftOut(*told, *off(blind, run)))
    return found


def off(table: calibrate.Table, run: Published) -> tuple[float, float]:
    """measured / predicted, and the least it could be."""
    on = calibrate.machine(table, run)
    parts = seconds_of(on, run.layout)
    least = least_seconds(on, parts, reach_in(table["devices"], run.device.name, run.precision))
    return float(f"{run.seconds / sum(parts):.4g}"), float(f"{least / sum(parts):.4g}")


def without(source: str) -> calibrate.Table:
    """Constants fitted to all others, from where nothing of the source's own is left."""
    table, fitted = calibrate.load(), others(source)
    own = [run for run in runs() if run.source == source]
    for program in {run.program for run in own}:
        row = table["programs"][program]
        alone = all(run.program != program for run in fitted)
        start = table["programs"][STAND_INS.get(program, STAND_IN)] if alone else USUAL
        row.update({n: start.get(n, 1.0) for n in row if n not in calibrate.FIXED})
    for device in {run.device.name for run in own}:
        if all(run.device.name != device for run in fitted):
            table["devices"].pop(device, None)
        elif device in table["devices"]:
            row, other = table["devices"][device], table["devices"]["other"]
            row.update({n: other.get(n, table["all"][""].get(n, 1.0)) for n in row})
    return calibrate.fit(table, fitted, rounds=ROUNDS)


def bounds(told: dict[str, list[float]]) -> tuple[float, float]:
    """Between what multiples eight of ten runs of one more source lie: each of k sources weighs
    1/(k + 1), however many runs it has, and what is missing lies beyond both ends (hierarchical
    conformal prediction: Lee, Barber and Willett 2023, arXiv:2306.06342).
    """
    each = [(one, 1 / (len(told) + 1) / len(own)) for own in told.values() for one in own]
    end = (1 + SHARE) / 2
    high = _below(each, end)
    return 1 / _below([(1 / one, weight) for one, weight in each], end), high


def _below(weighted: list[tuple[float, float]], share: float) -> float:
    """What so large a share lies below."""
    so_far = 0.0
    for value, weight in sorted(weighted):
        so_far += weight
        if so_far >= share - 1e-9:
            return value
    return inf


def told(rows: Iterable[LeftOut], unseen: bool = False) -> dict[str, list[LeftOut]]:
    """By source; those of devices that others told of, or all as if nobody had."""
    found = defaultdict(list)
    for one in rows:
        if unseen or one.multiple is not None:
            found[one.source].append(one)
    return found


def multiples(sources: dict[str, list[LeftOut]], unseen: bool) -> dict[str, list[float]]:
    return {
        name: [one.blind if unseen else one.multiple for one in own]
        for name, own in sources.items()
    }


def intervals() -> calibrate.Table:
    """The rows of calibrations.toml; who knows less has no narrower one."""
    found: dict[str, dict[str, float]] = {}
    for row, unseen in (("all", False), ("unseen", True)):
        sources = told(stored(), unseen)
        low, high = bounds(multiples(sources, unseen))
        known = found.get("all", {"low": low, "high": high})
        low, high = min(low, known["low"]), max(high, known["high"])
        runs = sum(map(len, sources.values()))
        found[row] = {"low": low, "high": high, "runs": runs, "sources": len(sources)}
    return {"intervals": found}


def held(unseen: bool = False) -> dict[str, list[tuple[LeftOut, bool]]]:
    """By source: its runs, and whether each lies between the bounds that the other sources give."""
    sources = told(stored(), unseen)
    every, found = multiples(sources, unseen), {}
    for name, own in sources.items():
        low, high = bounds({other: each for other, each in every.items() if other != name})
        found[name] = [(one, _inside(one, low, high, unseen)) for one in own]
    return found


def _inside(one: LeftOut, low: float, high: float, unseen: bool) -> bool:
    """As mathlib.plan.calibration.interval has it."""
    multiple, least = (one.blind, one.blindest) if unseen else (one.multiple, one.least)
    return max(low, min(1.0, least)) <= multiple <= high


@dataclass(frozen=True)
class Holds:
    """How many of ten lie inside, each source with the same weight."""

    program: str  # "": all
    sources: int
    runs: int
    known: float | None  # of those whose device others told of
    unseen: float  # as if no run had told of the device


def by_program() -> list[Holds]:
    """Of all, and of each program; most sources first."""
    known, unseen = held(), held(unseen=True)
    programs = {one.program for one in stored()}
    rows = []
    for program in ["", *programs]:
        own = [one for one in stored() if program in ("", one.program)]
        names = {one.source for one in own}
        shares = (_share(found, program) for found in (known, unseen))
        rows.append(Holds(program, len(names), len(own), *shares))
    return sorted(rows, key=lambda row: (-row.sources, -row.runs))


def _share(found: dict[str, list[tuple[LeftOut, bool]]], program: str) -> float | None:
    shares = []
    for own in found.values():
        inside = [is_in for one, is_in in own if program in ("", one.program)]
        if inside:
            shares.append(mean(inside))
    return mean(shares) if shares else None


@cache
def stored() -> tuple[LeftOut, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            LeftOut(
                *(row[n] for n in ("source", "program", "name")),
                float(row["multiple"]) if row["multiple"] else None,
                *(float(row[n]) for n in ("least", "blind", "blindest")),
            )
            for row in csv.DictReader(file)
        )


def main() -> None:
    named = sys.argv[1:] or sorted({run.source for run in runs()})
    kept = [one for one in stored() if one.source not in named] if FILE.exists() else []
    for source in named:
        found = left_out(source)
        kept += found
        print(f"{source}: {len(found)}", flush=True)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(one.name for one in fields(LeftOut))
        writer.writerows(
            astuple(one) for one in sorted(kept, key=lambda one: (one.source, one.name))
        )
    stored.cache_clear()
    calibrate.write(intervals())


if __name__ == "__main__":
    main()
