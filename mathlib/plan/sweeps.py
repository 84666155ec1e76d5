"""Sweeps that others measured: a model on so many GPUs, with one layout after the other.

T seconds of a step
What ran out of memory is there as well: a planner has to know that it would. Single steps that were
published with their layout (printed.toml) stand beside each sweep's quickest.
"""

from mathlib.checks import one_of
from mathlib.plan.calibration import find_rates, out_of_memory
from mathlib.plan.gap import Run
from mathlib.plan.machine import Machine, machine
from mathlib.plan.room import Room, find_keeps
from mathlib.plan.step import step
from mathlib.records import dataclass
from mathlib.specs import Cluster, Layout, Model, find_cluster, find_device, find_model, table


@dataclass(frozen=True)
class Trial:
    """One layout of a sweep, and what it took."""

    name: str  # as in the table it was published in
    layout: Layout
    program: str
    fitted: bool  # whether the planner's constants were fitted to it
    seconds: float  # of a step; 0: it ran out of memory

    @property
    def ran(self) -> bool:
        return self.seconds > 0

    @property
    def instance(self) -> int:
        """Devices that hold the model once."""
        return self.layout.tensor * self.layout.pipeline


@dataclass(frozen=True)
class Sweep:
    """A model, its GPUs, its batch, and the layouts that were tried on them."""

    title: str
    model: Model
    cluster: Cluster
    devices: int
    tokens: int
    sequences: int
    trials: tuple[Trial, ...]  # the quickest first, then those that did not run

    @property
    def timed(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.ran]

    def machine(self, program: str) -> Machine:
        """The model on these GPUs, as a program runs it."""
        rates = find_rates(self.cluster.device, program)
        return machine(self.model, self.cluster, rates, tokens=self.tokens)

    def predicted(self, trial: Trial) -> float:
        """Seconds that the planner gives a layout."""
        return step(self.machine(trial.program), trial.layout).total

    def needed(self, trial: Trial) -> float:
        """Bytes on the fullest GPU, with what its program keeps."""
        return Room(self.model, self.tokens, keeps=find_keeps(trial.program)).total(trial.layout)

    def risk(self, trial: Trial, reserve: float = 4e9) -> float:
        """The chance that the planner gives a layout of running out of memory."""
        there = find_device(self.cluster.device).room - reserve
        told = {"needed": self.needed(trial), "memory": there}
        return out_of_memory(**told, program=trial.program)


def names() -> list[str]:
    """All sweeps, in the order of the data file.

    Chapter: planning
    """
    return list(table("sweeps"))


def find_sweep(name: str) -> Sweep:
    """A sweep of sweeps.toml with its layouts.

    Chapter: planning
    """
    rows = table("sweeps")
    row = rows[one_of("name", name, rows)]
    s, V, n = row["tokens"], row["vocab"], row["devices"]
    wide = {"vocab": V, "padded_vocab": V, "context": s}
    model = find_model(row["like"]).but(name=name, title=row["title"].partition(",")[0], **wide)
    trials = []
    for run, t, p, b, split, again, kernel, fitted, seconds in row["rows"]:
        data = n // (t * p)
        shape = {
            "tensor": t,
            "pipeline": p,
            "data": data,
            "zero": 1,
            "sequence_parallel": split and t > 1,
        }
        m = row["sequences"] // (data * b)
        layout = Layout(**shape, micro_batch=b, micro_batches=m, recompute=again)
        program = row["program"] + ("" if kernel else "-norms")
        trials.append(Trial(run, layout, program, fitted, seconds))
    ordered = sorted(trials, key=lambda one: one.seconds or float("inf"))
    cluster = find_cluster(row["cluster"])
    return Sweep(row["title"], model, cluster, n, s, row["sequences"], tuple(ordered))


@dataclass(frozen=True)
class Printed:
    """A published step."""

    name: str
    title: str
    run: Run
    program: str  # a row of calibrations.toml
    source: str
    date: str


def printed() -> list[str]:
    """The names of all published steps, those of tables first.

    Chapter: planning
    """
    return [*table("printed"), *names()]


def find_printed(name: str) -> Printed:
    """A published step by its name in printed.toml, or the quickest of a sweep in sweeps.toml.

    Chapter: planning
    """
    if one_of("name", name, printed()) in table("sweeps"):
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
    found, row = find_sweep(name), table("sweeps")[name]
    best = found.timed[0]
    run = Run(found.machine(best.program), best.layout, best.seconds)
    title = f"{found.title}: {best.name}"
    return Printed(name, title, run, best.program, row["source"], row["date"])
