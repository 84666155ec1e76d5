"""Steps that others published with their layout: what a run of one's own can be held against.

The rows of printed.toml, and of every sweep the quickest layout, by the sweep's name.
"""

from mathlib.checks import one_of
from mathlib.plan import sweeps
from mathlib.plan.calibration import find_rates
from mathlib.plan.gap import Run
from mathlib.plan.machine import machine
from mathlib.records import dataclass
from mathlib.specs import Layout, find_cluster, find_model, table


@dataclass(frozen=True)
class Printed:
    """A published step."""

    name: str
    title: str
    run: Run
    program: str  # a row of calibrations.toml
    source: str
    date: str


def names() -> list[str]:
    """All of them, those of tables first.

    Chapter: planning
    """
    return [*table("printed"), *sweeps.names()]


def find_printed(name: str) -> Printed:
    """A published step by its name in printed.toml, or the quickest of a sweep in sweeps.toml.

    Chapter: planning
    """
    if one_of("name", name, names()) in table("sweeps"):
        return _quickest(name)
    row = table("printed")[name]
    layout, s = Layout(**row["layout"]), row["tokens"]
    cluster = find_cluster(row["cluster"])
    rates = find_rates(cluster.device, row["program"], precision=row["precision"])
    on = machine(find_model(row["model"]), cluster, rates, tokens=s)
    seconds = layout.sequences * s / (row["each"] * layout.world)
    run = Run(on, layout, seconds)
    return Printed(name, row["title"], run, row["program"], row["source"], row["date"])


def _quickest(name: str) -> Printed:
    found, row = sweeps.find_sweep(name), table("sweeps")[name]
    best = found.timed[0]
    run = Run(found.machine(best.program), best.layout, best.seconds)
    title = f"{found.title}: {best.name}"
    return Printed(name, title, run, best.program, row["source"], row["date"])
