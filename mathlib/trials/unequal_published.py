"""What others print of runs that fail, beside the formulas."""

from typing import NamedTuple

from mathlib import specs
from mathlib.plan import goodput
from mathlib.plan.interruptions import find_record
from mathlib.trials.planning import META, SAVE

ROWS = specs.table("rates")["failures"]
HOUR = 3600.0


class Goodput(NamedTuple):
    """Share of the work that counted."""

    run: str
    printed: float
    ours: float
    law: str  # how ours is reckoned


def goodputs() -> list[Goodput]:
    """torchft's two runs: a step is lost whenever a failure falls into it; a share of the time
    times a share of the steps.
    """
    committed, begun = ROWS["first"]
    every = ROWS["steps_between_failures"]
    present, kept, printed = ROWS["second"]
    return [
        Goodput("torchft, run 1", committed / begun, 1 - 1 / every, f"1 - 1/{every}"),
        Goodput("torchft, run 2", printed, present * kept, f"{present:.0%} x {kept:.1%}"),
    ]


class Restart(NamedTuple):
    """A job that goes on with new code: queued anew, or updated where it stands."""

    gpus: int
    requeue: float  # seconds
    update: float
    goodput_requeue: float  # if its GPUs fail as often as Llama 3's, with best intervals
    goodput_update: float


def left(gpus: int, seconds: float) -> float:
    """Share of the time that trains, if GPUs fail like Llama 3's and each failure takes so long."""
    return goodput.shares(
        devices=gpus,
        device_time_between_failures=find_record(META).device_time_between_failures,
        time_per_save=SAVE,
        time_per_failure=seconds,
    ).amount("compute")


def restarts() -> list[Restart]:
    """ByteRobust's Table 7, and what each of its times leaves of a run."""
    return [
        Restart(gpus, slow, fast, left(gpus, slow), left(gpus, fast))
        for gpus, slow, fast in ROWS["restarts"]
    ]


class Life(NamedTuple):
    """How long a job lives, and one of its GPUs if each fails by itself."""

    source: str
    gpus: int
    hours: float  # of the job, until it fails
    gpu_hours: float  # of one GPU


def lives() -> list[Life]:
    """Two fleets of the same company: n GPUs would fail n times as often as one, in both."""
    llama = find_record(META)
    gpus, hours = ROWS["life"]
    llamas = llama.time_between_failures / HOUR
    return [
        Life("Llama 3", llama.devices, llamas, llama.devices * llamas),
        Life("Kokolis et al.", gpus, hours, gpus * hours),
    ]
