"""Five people with 64 A100s for thirty days: their layouts, their memory, their month.

The GPUs, the batch and the model are those of a published sweep, so that a plan can be held against
what the same layouts took.
"""

from functools import cache
from typing import Any

from mathlib import specs
from mathlib.compute import cost, params
from mathlib.layout import Layout
from mathlib.parts import Parts
from mathlib.plan import goodput
from mathlib.plan.interruptions import find_record
from mathlib.plan.machine import Machine
from mathlib.plan.rent import find_price
from mathlib.plan.room import HELD, Keeps, Room, find_keeps
from mathlib.plan.search import Choice, search
from mathlib.plan.sweeps import Sweep, find_sweep
from mathlib.show import says
from mathlib.trials.planning_scaling import DAY
from mathlib.trials.together_path import said

PROGRAM = "megatron-flash"
PER_PARAMETER = 20  # tokens
RESERVE = 4e9
LIMIT = specs.find_device("a100-80gb").room - RESERVE  # bytes that a layout may fill
SAVE, RESTART = 30.0, 15 * 60.0  # seconds for which a save stops the job; until it goes on again
LISTS = ("hyperstack-a100-sxm", "lambda-a100-sxm", "aws-p4de.24xlarge")
META, OPT = "Llama 3 405B, 16,384 H100", "OPT-175B, 992 A100"


@cache
def sweep() -> Sweep:
    """Aleph Alpha's layouts of LLaMA's 13B with 8,192 tokens on 64 A100s."""
    return find_sweep("13b-8k-64")


def words(layout: Layout) -> str:
    """Degrees of a layout, its micro-batch, and what it recomputes."""
    again = f", {layout.recompute} recomputation" * (layout.recompute != "none")
    return f"{said(layout)}, micro-batch {layout.micro_batch}{again}"


def tensor(gpus: int, replicas: int) -> Layout:
    """Replicas of so many GPUs by tensor parallelism, which share by ZeRO 1 if they are several."""
    split: dict[str, Any] = {
        "tensor": gpus,
        "sequence_parallel": gpus > 1,
        "zero": int(replicas > 1),
    }
    return Layout(**split, data=replicas, micro_batches=sweep().sequences // replicas)


def replicas() -> dict[str, dict[str, float]]:
    """Bytes on the fullest GPU of one replica, and of as many as 64 GPUs hold."""
    sizes = (1, 2, 4, 8)
    alone = {f"{n} GPU{'s' * (n > 1)}, one replica": tensor(n, 1) for n in sizes}
    many = {f"{n} GPU{'s' * (n > 1)} of 64": tensor(n, 64 // n) for n in sizes}
    return {name: filled(layout, sweep()) for name, layout in (alone | many).items()}


def filled(layout: Layout, one: Sweep, keeps: Keeps | None = None) -> dict[str, float]:
    """Bytes on the fullest GPU, by what they are."""
    room = Room(one.model, one.tokens, keeps=keeps or find_keeps())
    parts = zip(HELD, room.parts(layout), strict=True)
    return {what: size for what, size in parts if size}


def able(on: Machine, gpus: int, sequences: int, risk: float = 0.05) -> list[Choice]:
    """What the sweep's program can run with at most this chance of running out of memory, the
    quickest first: ZeRO 1 over all replicas, stages in one piece, whole sequences.
    """
    most = {"zero": 1, "context": 1, "chunks": 1}
    job: dict[str, Any] = {
        "devices": gpus,
        "sequences": sequences,
        "program": PROGRAM,
        "risk": risk,
    }
    found = search(on, **job, at_most=most, most=400).choices
    return [c for c in found if c.layout.shard in (1, c.layout.data)]


def rows(choices: list[Choice]) -> list[list[str]]:
    """Of a table: layout, step, fullest GPU, chance of running out of memory."""
    return [
        [words(c.layout), f"{c.seconds:.1f} s", says.size(c.memory), f"{c.risk:.0%}"]
        for c in choices
    ]


def steps() -> float:
    """Of the run."""
    one = sweep()
    return PER_PARAMETER * params.count(one.model).total / (one.sequences * one.tokens)


def stretched(gpus: int, record: str = META, restart: float = RESTART) -> Parts:
    """A second of training on GPUs that fail like a published run's, saved as Young says."""
    between = find_record(record).device_time_between_failures / gpus
    every = goodput.interval(time_per_save=SAVE, time_between_failures=between)
    return goodput.time_for(
        seconds=1.0,
        time_between_saves=every,
        time_per_save=SAVE,
        time_between_failures=between,
        time_per_failure=restart,
    )


def days(step: float, gpus: int = 64, record: str = META) -> float:
    """Of the whole run, with failures."""
    return steps() * step * stretched(gpus, record).total / DAY


def goodputs() -> list[list[str]]:
    """Rows of a table: GPUs, a failure every, a save every, the time that trains."""
    found = []
    for n in (64, 1_024, 16_384):
        between = find_record(META).device_time_between_failures / n
        tau = goodput.interval(time_per_save=SAVE, time_between_failures=between)
        trains = f"{1 / stretched(n).total:.1%}"
        found.append([f"{n:,}", says.time(between), says.time(tau), trains])
    return found


def calendar(cases: dict[str, tuple[float, ...]]) -> list[list[str]]:
    """Rows of a table: days of the run by seconds of a step."""
    return [[name, *(f"{days(T):.1f}" for T in steps)] for name, steps in cases.items()]


def bill(*seconds: float) -> tuple[list[str], list[list[str]]]:
    """A table's head and rows: what the run costs by three price lists, if a step takes so long."""
    lasts = [days(T) for T in seconds]
    hours = [cost.device_hours(devices=64, seconds=each * DAY) for each in lasts]
    lists = [find_price(name) for name in LISTS]
    rows = [
        [one.title, f"${one.on_demand:.2f}", *(f"${n * one.on_demand:,.0f}" for n in hours)]
        for one in lists
    ]
    return ["list", "a GPU-hour", *(f"{each:.0f} days" for each in lasts)], rows
