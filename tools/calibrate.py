"""Fit the planner's constants to published runs: `tools/calibrate.py [--fit] [--write] [--sets]`.

Half of the runs of every source, drawn by their names, are fitted to; what is printed is the error
on the other half. A constant moves up and down by ever smaller steps while the errors |ln(predicted
/ measured)| fall, with a weak pull to where it began: what few runs tell stays where it was.
"""

import argparse
import sys
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers"), str(ROOT / "tools")]

import layout_sets  # noqa: E402
import memory_needs  # noqa: E402

from mathlib.compute import flops  # noqa: E402
from mathlib.plan.calibration import NAMES, Rates, joined  # noqa: E402
from mathlib.plan.published_runs import Published, published, sweeps  # noqa: E402
from mathlib.plan.step import Machine, seconds_of  # noqa: E402

FILE = ROOT / "mathlib" / "data" / "calibrations.toml"
Table = dict[str, dict[str, dict[str, float]]]
SHARES = {"tensor_hidden", "expert_hidden", "data_hidden", "again"}  # between 0 and 1
MOST = {"matmul": 0.95, "attention": 0.9, "link": 1.0, "network": 1.0, "memory": 0.95}
FIXED = {"gradient_bytes", "fused", "memory", "whole_parameters"}
PULL = 0.02  # of a constant that is e times as large as it was


def rates_of(table: Table, run: Published) -> Rates:
    """As mathlib.plan.calibration finds them, from a table that is being fitted."""
    own = table["devices"].get(run.device.name, table["devices"]["other"])
    named = table["all"][""] | table["programs"][run.program] | own
    wanted = {n: named[n] for n in NAMES if n in named}
    if run.precision != "half":
        wanted["matmul"] = named[f"matmul_{run.precision}"]
    return Rates(**joined(wanted, named) | {"precision": run.precision})


def machine(table: Table, run: Published) -> Machine:
    return Machine(run.model, run.device, run.cluster, rates_of(table, run), run.tokens)


def predicted(table: Table, run: Published) -> float:
    return sum(seconds_of(machine(table, run), run.layout))


def off(table: Table, run: Published) -> float:
    """ln(predicted / measured)."""
    return log(predicted(table, run) / run.seconds)


def loss(table: Table, runs: Iterable[Published]) -> float:
    """Errors above a half count less and less: some published runs had trouble of their own."""
    return sum(1 / (2 + 1 / max(abs(off(table, run)), 1e-9)) for run in runs)


def timed() -> list[Published]:
    """Published runs that say their layout and how long a step took."""
    return [run for run in published()[0] if run.told and run.seconds]


def fitted_to(run: Published) -> bool:
    """Half of all runs, by a sum of their names."""
    return zlib.crc32(run.name.encode()) % 2 == 0


def moved(value: float, name: str, step: float) -> float:
    if name in SHARES:
        return min(1.0, max(0.0, value + step))
    if name == "crowd":
        return max(0.0, value + step / 20)
    return min(MOST.get(name.split("_")[0], 1e9), value * exp(step))


def concerns(group: str, row: str, run: Published, table: Table) -> bool:
    if group == "devices":
        known = run.device.name if run.device.name in table["devices"] else "other"
        return known == row
    return group == "all" or run.program == row


def fit(table: Table, runs: list[Published], only: str = "", rounds: int = 12) -> Table:
    """All constants, or those of one row."""
    start = {g: {r: dict(v) for r, v in rows.items()} for g, rows in table.items()}
    step = 0.4
    for _ in range(rounds):
        for group, rows in table.items():
            for row, named in rows.items():
                own = [run for run in runs if concerns(group, row, run, table)]
                if own and only in ("", row):
                    improve(table, named, start[group][row], own, step)
        step *= 0.75
    return table


def improve(
    table: Table,
    named: dict[str, float],
    start: dict[str, float],
    runs: list[Published],
    step: float,
) -> None:
    """Each constant of a row once up or down."""

    def cost() -> float:
        away = sum(
            abs(v - start[n]) if n in SHARES else abs(log(v / start[n])) if v and start[n] else 0
            for n, v in named.items()
            if n not in FIXED
        )
        return loss(table, runs) + PULL * away

    best = cost()
    for name in [n for n in named if n not in FIXED]:
        for sign in (1, -1):
            before = named[name]
            named[name] = moved(before, name, sign * step)
            found = cost()
            if found < best - 1e-9:
                best = found
                break
            named[name] = before


def shares(fitted: Iterable[Published]) -> dict[tuple[str, str], float]:
    """One share of the peak for each device and precision, the median of these runs."""
    found = defaultdict(list)
    for run in fitted:
        found[run.device.name, run.precision].append(share(run))
    return {key: median(own) for key, own in found.items()}


def floor(tested: Iterable[Published], shares: dict[tuple[str, str], float]) -> list[float]:
    """Errors of one share of the peak a device; not on devices that have none."""
    return [
        share(run) / own - 1
        for run in tested
        if (own := shares.get((run.device.name, run.precision)))
    ]


def share(run: Published) -> float:
    lay = run.layout
    done = flops.training(run.model, sequences=lay.sequences, tokens=run.tokens).total
    return done / (run.seconds * lay.world * run.device.half)


def report(table: Table, runs: list[Published]) -> None:
    by_source = defaultdict(list)
    for run in runs:
        by_source[run.source].append(run)
    print(f"{'source':18}{'fit':>5}{'median':>8}{'test':>6}{'median':>8}{'worst':>8}{'bias':>8}")
    every: dict[bool, list[float]] = {True: [], False: []}
    for source, own in sorted(by_source.items(), key=lambda one: -len(one[1])):
        errors = {
            part: [exp(off(table, r)) - 1 for r in own if fitted_to(r) == part]
            for part in (True, False)
        }
        for part in errors:
            every[part] += errors[part]
        fitted, tested = ([abs(e) for e in errors[part]] or [0.0] for part in (True, False))
        print(
            f"{source:18}{len(errors[True]):5}{median(fitted):8.1%}{len(errors[False]):6}"
            f"{median(tested):8.1%}{max(tested):8.1%}{median(errors[False] or [0]):8.1%}"
        )
    for part, name in ((True, "fitted"), (False, "tested")):
        size = [abs(e) for e in every[part]]
        mean = sum(size) / len(size)
        print(
            f"{name}: {len(size)} runs, median {median(size):.1%}, mean {mean:.1%}, "
            f"worst {max(size):.0%}"
        )
    fitted, tested = ([run for run in runs if fitted_to(run) == part] for part in (True, False))
    plain = [abs(e) for e in floor(tested, shares(fitted))]
    print(
        f"one share of the peak a device instead: median {median(plain):.1%}, mean "
        f"{sum(plain) / len(plain):.1%}"
    )


def report_sweeps(table: Table, each: bool) -> None:
    """Errors and order on sweeps of which no run was fitted."""
    runs = [run for run in sweeps() if run.seconds]
    guess = {run.name: predicted(table, run) for run in runs}
    print(f"{'sweeps':18}{'runs':>5}{'median':>8}{'mean':>8}{'bias':>8}")
    for source in sorted({run.source for run in runs}):
        off_by = [guess[run.name] / run.seconds - 1 for run in runs if run.source == source]
        size = [abs(one) for one in off_by]
        mean = sum(size) / len(size)
        print(f"{source:18}{len(size):5}{median(size):8.1%}{mean:8.1%}{median(off_by):8.1%}")
    layout_sets.report(guess, runs, "sweeps", each=each)


def load() -> Table:
    table = tomllib.loads(FILE.read_text("utf-8"))
    return {"all": {"": table["all"]}, "devices": table["devices"], "programs": table["programs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit before reporting")
    parser.add_argument(
        "--only", default="", metavar="ROW", help="fit one row, as its data changed"
    )
    parser.add_argument("--write", action="store_true", help="keep what was fitted")
    parser.add_argument("--sets", action="store_true", help="print every set of layouts")
    args = parser.parse_args()
    every = [run for run in published()[0] if run.told]
    runs = [run for run in every if run.seconds]
    table = load()
    if args.fit:
        fit(table, [run for run in runs if fitted_to(run)], args.only)
    report(table, runs)
    guess = {run.name: predicted(table, run) for run in runs}
    layout_sets.report(guess, runs, "all runs", each=args.sets)
    layout_sets.report(guess, [r for r in runs if not fitted_to(r)], "not fitted", each=args.sets)
    report_sweeps(table, args.sets)
    of_memory = memory_needs.fit([run for run in every if fitted_to(run)])
    memory_needs.report(of_memory, [run for run in every if not fitted_to(run)])
    memory_needs.report(of_memory, sweeps())
    if args.write:
        write(table | of_memory)
        print("now tools/left_out.py draws the intervals anew")


def write(changed: Table) -> None:
    """The head of the file stays, and so does what was not changed; constants have three digits."""
    text = FILE.read_text("utf-8")
    lines = [*[line for line in text.splitlines() if line.startswith("#")], ""]
    found = tomllib.loads(text)
    for group, rows in (found | changed).items():
        if not isinstance(next(iter(rows.values())), dict):
            rows = {"": rows}
        for row, named in rows.items():
            lines.append(f"[{group}.{row}]" if row else f"[{group}]")
            lines += [f"{n} = {shown(v)}" for n, v in named.items()] + [""]
    FILE.write_text("\n".join(lines), "utf-8")


def shown(value: float) -> str:
    return str(value).lower() if isinstance(value, int) else f"{value:.3g}"


if __name__ == "__main__":
    main()
