"""The simplest mix of axes that is about as quick as the quickest: what to decide, in which order.

n devices · B sequences
Each axis more is another way to err, and no prediction tells apart what differs by a few percent.
So allow one axis after the other, and stop at the first whose quickest layout is predicted to take
hardly longer than the quickest of all.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from mathlib.checks import InputError, instance, listed, non_negative
from mathlib.plan.machine import Machine
from mathlib.plan.search import Choice, Ranking, search
from mathlib.records import dataclass
from mathlib.specs import Layout
from mathlib.units import show

T = TypeVar("T")
ALONE = {"tensor": 1, "expert": 1, "pipeline": 1, "context": 1}
LEVELS: dict[str, dict[str, int]] = {  # what each allows besides what those before it do
    "data parallelism": {**ALONE, "zero": 2},
    "ZeRO 3": ALONE,
    "tensor or expert parallelism": {"pipeline": 1, "context": 1},
    "a pipeline": {"context": 1},
    "context parallelism": {},
}
TOLERANCE = 0.05  # of the quickest one's time


@dataclass(frozen=True)
class Step:
    """One level: what it allows, the quickest layout that fits, and how much longer it takes than
    the quickest of all.
    """

    level: str
    choice: Choice | None  # None: there is none
    longer: float = 0.0
    why: str = ""  # there is none

    def __str__(self) -> str:
        if self.choice is None:
            return f"{self.level}: {self.why}"
        beside = f"{self.longer:.0%} longer than the quickest" if self.longer else "the quickest"
        return f"{self.level}: {show(self.choice.seconds, 'second')}, {beside}"


def level(layout: Layout) -> str:
    """The first level that allows a layout.

    Chapter: together (eq-simplest)
    """
    instance("layout", layout, Layout)
    return next(name for name, most in LEVELS.items() if _within(layout, most))


def _within(layout: Layout, most: dict[str, int]) -> bool:
    return all(getattr(layout, axis) <= value for axis, value in most.items())


def simplest(ways: Iterable[tuple[Layout, float, T]], tolerance: float = TOLERANCE) -> T:
    """Of layouts with their seconds, the simplest that takes at most so much longer than the
    quickest; of equally simple ones the quickest.

    Chapter: together (eq-simplest)
    """
    every = listed("ways", ways)
    if not every or not all(isinstance(way, tuple) and len(way) == 3 for way in every):
        raise InputError(f"ways = {every}: expected one (layout, seconds, what it is) or more")
    most = min(seconds for _, seconds, _ in every) * (1 + non_negative("tolerance", tolerance))
    order = list(LEVELS)
    near = [way for way in every if way[1] <= most]
    return min(near, key=lambda way: (order.index(level(way[0])), way[1]))[2]


def decide(
    on: Machine,
    *,
    devices: int,
    sequences: int,
    tolerance: float = TOLERANCE,
    risk: float | None = 0.05,
    **options: Any,
) -> list[Step]:
    """Level by level, down to the one to take, which is the last; `options` are those of `search`,
    and `risk` the chance of running out of memory that one takes.

    Where nothing fits at all, no step has a choice.

    Chapter: together (eq-simplest)
    """
    non_negative("tolerance", tolerance)
    for name in ("only", "at_most"):
        if options.get(name):
            raise InputError(f"{name} = {options[name]!r}: expected none, as levels set the axes")
    job = {"devices": devices, "sequences": sequences, "risk": risk, **options}
    whole = search(on, **job)
    steps = []
    for name, most in LEVELS.items():
        steps.append(_step(name, search(on, at_most=most, **job) if most else whole, whole))
        if steps[-1].choice and steps[-1].longer <= tolerance:
            break
    return steps


def _step(name: str, found: Ranking, whole: Ranking) -> Step:
    if not found.choices:
        return Step(name, None, why=str(found))
    best = found.choices[0]
    return Step(name, best, best.seconds / whole.choices[0].seconds - 1)
