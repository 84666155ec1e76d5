"""Why a step takes longer than predicted, or than somebody else's: the difference by cause.

T seconds of a step
What the model cannot explain is a part of its own. Failing disks, waiting for data, one slow
device, unequal experts, other jobs on the network: the model knows none of them.
"""

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

from mathlib.checks import instance, positive
from mathlib.parts import Parts
from mathlib.plan.step import NAMES, Machine, interval, seconds_of, step
from mathlib.records import dataclass, replace
from mathlib.specs import Layout
from mathlib.units import show

UNKNOWN = "unexplained"
BOUNDS = {  # constants of a machine at their worst and at their best, and what they are
    "matmul": (0.02, 1.0, "share of the peak that matmuls reach"),
    "grouped": (0.02, 1.0, "share of that which experts' matmuls reach"),
    "attention": (0.02, 1.0, "share of the peak that attention reaches"),
    "memory": (0.02, 1.0, "share of the memory bandwidth"),
    "link": (0.005, 1.0, "share of the bandwidth to neighbours"),
    "network": (0.005, 1.0, "share of the bandwidth out of a node"),
    "launch": (1.0, 0.0, "seconds in which a layer's kernels are launched"),
    "tensor_hidden": (0.0, 1.0, "share of TP and CP communication that is hidden"),
    "expert_hidden": (0.0, 1.0, "share of EP communication that is hidden"),
    "data_hidden": (0.0, 1.0, "share of gradients and weights that is hidden"),
    "sends": (50.0, 0.0, "messages between stages that are waited for"),
}
HALVINGS = 24  # to a ten-millionth of what lies between
LITTLE = 1e-3  # a share of nothing has no logarithm


@dataclass(frozen=True)
class Run:
    """A layout on a machine, and what its step was measured to take."""

    on: Machine
    layout: Layout
    seconds: float

    def __post_init__(self) -> None:
        instance("on", self.on, Machine)
        instance("layout", self.layout, Layout)
        positive("seconds", self.seconds)

    @property
    def each(self) -> float:
        """Tokens of a step on a device."""
        return self.layout.sequences * self.on.tokens / self.layout.world


@dataclass(frozen=True)
class Suspect:
    """A constant that may be another one here."""

    name: str  # of Rates
    what: str
    now: float  # as fitted to published runs
    needed: float | None  # with this value the prediction is the measurement; None: with no value
    most: float  # seconds that it can explain at most

    def __str__(self) -> str:
        if self.needed is None:
            return f"{self.what}: explains {show(self.most, 'second')} at most"
        return f"{self.what}: {self.needed:.3g} instead of {self.now:.3g} would explain it alone"


def measured(on: Machine, layout: Layout, *, seconds: float) -> Parts:
    """A measured step by part: the predicted ones, and what they do not explain, which is negative
    where a step was quicker. The title has the 80% prediction interval.

    Chapter: planning
    """
    run = Run(on, layout, seconds)
    model = step(on, run.layout)
    usual = interval(on, run.layout)
    title = (
        f"A step of {show(run.seconds, 'second')}; predicted are {show(model.total, 'second')}, "
        f"and {show(usual.low, 'second')} to {show(usual.high, 'second')} is the 80% interval"
    )
    return Parts(title, "second", {"predicted": model, UNKNOWN: run.seconds - model.total})


def between(mine: Run, other: Run) -> Parts:
    """Seconds that my step takes more than the other run's, by part; what is left is what the two
    differ in and the model does not know. Less is negative.

    Where batch or devices differ, the other's step counts as long as it would take for my tokens on
    a device.

    Chapter: planning
    """
    mine, other = instance("mine", mine, Run), instance("other", other, Run)
    scale = mine.each / other.each
    one, two = (seconds_of(run.on, run.layout) for run in (mine, other))
    parts = {name: a - scale * b for name, a, b in zip(NAMES, one, two, strict=True)}
    parts = {name: more for name, more in parts.items() if more}
    return _rest("Seconds of a step more than the other run takes", parts, mine, other)


def _rest(title: str, parts: dict[str, float], mine: Run, other: Run) -> Parts:
    more = mine.seconds - other.seconds * mine.each / other.each
    alike = "" if mine.each == other.each else " for as many tokens on a device"
    return Parts(title + alike, "second", parts | {UNKNOWN: more - sum(parts.values())})


def changes(mine: Run, other: Run) -> Parts:
    """The same difference by what was changed: the other run's model becomes mine, then its device
    with the program on it, then its nodes, then its layout.

    In a different order the shares are different; their sum is not.

    Chapter: planning
    """
    mine, other = instance("mine", mine, Run), instance("other", other, Run)
    a, b = mine.on, other.on
    asked = replace(b, model=a.model, tokens=a.tokens)
    equipped = replace(asked, device=a.device, rates=a.rates)
    linked = replace(equipped, cluster=a.cluster)
    steps = {
        "model and length": (b, asked, other.layout, other.layout),
        "device and program": (asked, equipped, other.layout, other.layout),
        "nodes and their links": (equipped, linked, other.layout, other.layout),
        "layout": (linked, a, other.layout, mine.layout),
    }
    parts = {}
    for name, (before, after, lay, new) in steps.items():
        more = _a_token(mine, after, new) - _a_token(mine, before, lay)
        if more:
            parts[name] = more
    return _rest("Seconds of a step more than the other run takes", parts, mine, other)


def _a_token(mine: Run, on: Machine, layout: Layout) -> float:
    """Seconds for as many tokens on a device as mine has."""
    return sum(seconds_of(on, layout)) * mine.each / Run(on, layout, 1.0).each


def suspects(on: Machine, layout: Layout, *, seconds: float) -> list[Suspect]:
    """What alone would explain a measured step: for each constant that the prediction rests on,
    the value with which it would be the measurement. First those that would have to change least,
    then those that explain a part, the largest first.

    Chapter: planning
    """
    run = Run(on, layout, seconds)
    T, predicted = run.seconds, sum(seconds_of(on, run.layout))
    found = []
    for name, (worst, best, what) in BOUNDS.items():
        now = getattr(on.rates, name)
        slower = max(worst, now) if worst > best else min(worst, now)
        end = slower if predicted < T else best
        most = _with(run, name, end) - predicted
        if abs(most) < 0.01 * abs(T - predicted):
            continue
        enough = abs(most) >= abs(T - predicted)
        needed = _meets(partial(_with, run, name), now, end, T) if enough else None
        found.append(Suspect(name, what, now, needed, most))
    return sorted(found, key=_likely)


def _with(run: Run, name: str, value: float) -> float:
    """Seconds with another value of a constant; exactly none is refused for some."""
    changed: dict[str, Any] = {name: value}
    rates = replace(run.on.rates, **changed)
    return sum(seconds_of(replace(run.on, rates=rates), run.layout))


def _meets(seconds: Callable[[float], float], near: float, far: float, T: float) -> float:
    """The value between two at which the time is T, by halving; far stays on its side of T."""
    slow = seconds(far) > T
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        if (seconds(middle) > T) == slow:
            far = middle
        else:
            near = middle
    return (near + far) / 2


def _likely(one: Suspect) -> tuple[bool, float]:
    """By what factor it would have to change."""
    if one.needed is None:
        return True, -abs(one.most)
    return False, abs(log((one.needed + LITTLE) / (one.now + LITTLE)))
