"""The planner's search: layouts a second, beside the aim and beside asking every layout alone; and
the groups of a million ranks, beside theirs.
"""

import time
from collections.abc import Callable, Iterator

import rounds

from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.room import Room
from mathlib.plan.step import seconds_of
from mathlib.specs import find_cluster
from mathlib.traffic import mesh

AIM = 100_000  # layouts a second
RANKS, AXES = 2**20, {"tp": 8, "cp": 2, "pp": 16}  # data parallelism has the rest
AIM_GROUPS = 1.0  # seconds
SEARCHES = [  # model, tokens, devices, sequences
    ("llama3-8b", 4096, 64, 256),
    ("llama3-70b", 8192, 512, 1024),
    ("mixtral-8x7b", 4096, 64, 256),
]


def machine(model: str, tokens: int) -> step.Machine:
    """A new one each time, which remembers nothing."""
    cluster = find_cluster("dgx-h100")
    return step.machine(model, cluster, find_rates("h100-sxm"), tokens=tokens)


def one_by_one(model: str, tokens: int, devices: int, sequences: int) -> float:
    """Seconds of the quickest layout, each layout's memory and time asked for itself."""
    on, best = machine(model, tokens), float("inf")
    room, left = Room(on.model, tokens), on.device.room - 4e9
    asked = {"tokens": tokens, "devices": devices, "sequences": sequences, "node": 8}
    for way in planner.ways(on.model, **asked):
        if room.total(way) <= left:
            best = min(best, sum(seconds_of(on, way)))
    return best


def search(model: str, tokens: int, devices: int, sequences: int) -> planner.Ranking:
    return planner.search(machine(model, tokens), devices=devices, sequences=sequences)


def groups() -> dict[str, int]:
    """How many groups of ranks there are along each axis, all of them listed."""
    grid = mesh.megatron(world=RANKS, **AXES)
    return {axis: len(grid.groups(axis)) for axis, size in grid.sizes.items() if size > 1}


def timed(call: Callable[..., object], *arguments: object) -> Callable[[], float]:
    """Seconds of processor that a call takes."""

    def seconds() -> float:
        begin = time.process_time()
        call(*arguments)
        return time.process_time() - begin

    return seconds


def rows(quick: bool) -> Iterator[dict]:
    for asked in SEARCHES[:1] if quick else SEARCHES:
        layouts = search(*asked).tried
        candidates = {
            "search": timed(search, *asked),
            "one by one": timed(one_by_one, *asked),
            "the aim": lambda layouts=layouts: layouts / AIM,
        }
        times = rounds.alone(candidates, rounds=2 if quick else 10)
        what = f"{asked[0]} on {asked[2]} devices, {layouts:,} layouts"
        for theirs in ("one by one", "the aim"):
            yield rounds.row(what, times, "search", theirs, layouts=layouts)
    candidates = {"groups": timed(groups), "the aim": lambda: AIM_GROUPS}
    times = rounds.alone(candidates, rounds=2 if quick else 10)
    yield rounds.row(f"groups of {RANKS:,} ranks on 4 axes", times, "groups", "the aim")
