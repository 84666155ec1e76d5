"""How fast a device and a program do the amounts of a step: constants fitted to published runs.

T time in seconds
A device's row says what share of its data sheet it reaches, a program's row what it hides and what
it adds; `data/calibrations.toml` has them with what they were fitted to.
"""

from functools import cache
from math import exp, log
from typing import Any

from mathlib.checks import InputError, flag, non_negative, one_of, positive, whole
from mathlib.records import dataclass, fields
from mathlib.specs import table

PRECISIONS = ("half", "fp8", "fp4")
STRAY = 0.04  # of published runs that fit or do not for reasons of their own


@dataclass(frozen=True)
class Rates:
    """Constants of a device and a program."""

    matmul: float = 0.75  # share of the peak that large matmuls reach
    attention: float = 0.5  # share of the peak of 16 bits that the attention kernel reaches
    grouped: float = 0.8  # of that, what the matmuls of experts reach
    memory: float = 0.8  # share of the memory bandwidth
    link: float = 0.7  # share of the bandwidth to neighbours in a node
    network: float = 0.7  # share of the bandwidth out of a node
    hop: float = 5e-6  # seconds of one round of a collective
    reread: float = 1.0  # bytes that matmuls move, as a multiple of reading and writing each once
    traffic: float = 1.0  # bytes of what is no matmul, as a multiple of our count
    launch: float = 1e-3  # seconds in which a layer's kernels are launched, forward and backward
    launch_more: float = 0.0  # seconds more where ranks exchange inside a layer
    tensor_hidden: float = 0.0  # share of tensor and context exchanges behind computation
    expert_hidden: float = 0.0  # share of exchanges with experts behind computation
    data_hidden: float = 0.5  # share of gradients and weights behind computation
    sends: float = 1.0  # messages between stages that are waited for, of a micro-batch's
    again: float = 0.0  # share of the matmuls that selective recomputation does again
    crowd: float = 0.0  # how much longer all takes for each doubling of the nodes
    gradient_bytes: float = 4.0  # bytes of a gradient in flight
    visit_bytes: float = 2.0  # bytes of a number on its way to an expert or back, on average
    visit_nodes: int = 0  # nodes that a token goes to at most; 0: wherever its experts are
    whole_parameters: bool = False  # ZeRO's stage 1 gives ranks whole matrices, each sent by itself
    fused: bool = True  # attention never holds the scores
    precision: str = "half"  # of the layers' matmuls

    def __post_init__(self) -> None:
        one_of("precision", self.precision, PRECISIONS)
        for name in ("fused", "whole_parameters"):
            flag(name, getattr(self, name))
        positive("visit_bytes", self.visit_bytes)
        whole("visit_nodes", self.visit_nodes, least=0)
        for name in ("matmul", "grouped", "attention", "memory", "link", "network", "reread"):
            positive(name, getattr(self, name))
        for name in ("tensor_hidden", "expert_hidden", "data_hidden", "again"):
            if non_negative(name, getattr(self, name)) > 1:
                raise InputError(f"{name} = {getattr(self, name)!r}: expected a share, 0 to 1")
        for name in ("hop", "traffic", "launch", "launch_more", "sends", "crowd", "gradient_bytes"):
            non_negative(name, getattr(self, name))


NAMES = tuple(one.name for one in fields(Rates))


def find_rates(device: str, program: str = "megatron-core", *, precision: str = "half") -> Rates:
    """The constants of a device and a program, as fitted; a device without runs takes those of the
    row `other`.

    Chapter: planning
    """
    return _rates(device, program, one_of("precision", precision, PRECISIONS))


@cache
def _rates(device: str, program: str, precision: str) -> Rates:
    rows = table("calibrations")
    one_of("device", device, table("devices"))
    own = rows["devices"].get(device, rows["devices"]["other"])
    other = rows["programs"][one_of("program", program, rows["programs"])]
    named: dict[str, Any] = rows["all"] | other | own
    wanted = {n: named[n] for n in NAMES if n in named}
    if precision != "half":
        if f"matmul_{precision}" not in own:
            raise InputError(f"precision = {precision!r}: no run on {device} tells how fast it is")
        wanted["matmul"] = own[f"matmul_{precision}"]
    return Rates(**joined(wanted, named) | {"precision": precision})


def joined(wanted: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """A device's shares times those of the program on it, at most 1."""
    shares = {n: min(1.0, wanted[n] * named.get(f"{n}_of", 1.0)) for n in ("matmul", "attention")}
    return wanted | shares


def reach(device: str | None, *, precision: str = "half") -> float:
    """The share of its peak that a device's large matmuls reach in published runs; of a device
    without any, or of one's own (None), the most that another's reach.

    Chapter: planning
    """
    one_of("precision", precision, PRECISIONS)
    if device is not None:
        one_of("device", device, table("devices"))
    return reach_in(table("calibrations")["devices"], device, precision)


def reach_in(rows: dict[str, dict[str, float]], device: str | None, precision: str) -> float:
    name = "matmul" if precision == "half" else f"matmul_{precision}"
    return rows.get(device or "", {}).get(name) or max(row["matmul"] for row in rows.values())


@dataclass(frozen=True)
class Interval:
    """The 80% prediction interval of published runs from a source that nothing knew."""

    low: float  # seconds
    high: float  # seconds
    runs: int  # from so many runs
    sources: int  # of so many sources, each with the same weight


def interval(seconds: float, *, device: str | None, least: float = 0.0) -> Interval:
    """The 80% prediction interval of a step predicted to take `seconds`, from runs of a
    source that was left out of the fit, each source with the same weight; of a device that no run
    tells of, or of one's own (None), as if none had told of theirs. Never less than `least`.

    Chapter: planning
    """
    rows = table("calibrations")
    if device is not None:
        one_of("device", device, table("devices"))
    row = rows["intervals"]["all" if device in rows["devices"] else "unseen"]
    T = positive("seconds", seconds)
    low = max(T * row["low"], min(T, non_negative("least", least)))
    return Interval(low, T * row["high"], int(row["runs"]), int(row["sources"]))


def out_of_memory(*, needed: float, memory: float, program: str | None = "megatron-core") -> float:
    """The chance that a step predicted to need so many bytes finds a device of `memory` too small:
    1 / (1 + e^((ln(memory / needed) - typical) / spread)), as far as published runs of a program
    were off; of all programs where it has few, or where None is named; "adapters" are those that
    train adapters. A few runs go wrong whatever is predicted.

    Chapter: planning
    """
    row = table("calibrations")["needs"]["all"] if program is None else _needs(program)
    there, needs = positive("memory", memory), positive("needed", needed)
    return chance_over(log(there / needs), row["typical"], row["spread"])


def most_needed(*, memory: float, risk: float, program: str = "megatron-core") -> float:
    """Bytes with which the chance of `out_of_memory` is `risk`: the most that a careful step needs.
    A few runs go wrong whatever is predicted, so that no chance is as small as 2%.

    Chapter: planning
    """
    row = _needs(program)
    there, chance = positive("memory", memory), positive("risk", risk)
    if not STRAY / 2 < chance < 1 - STRAY / 2:
        raise InputError(f"risk = {chance:g}: expected between {STRAY / 2:g} and {1 - STRAY / 2:g}")
    away = log((1 - STRAY) / (chance - STRAY / 2) - 1)
    return there / exp(row["typical"] + row["spread"] * away)


def _needs(program: str) -> dict[str, float]:
    """How far runs were off in what they need."""
    rows = table("calibrations")
    one_of("program", program, rows["programs"] | rows["needs"])
    return dict(rows["needs"].get(program, rows["needs"]["all"]))


def chance_over(room: float, typical: float, spread: float) -> float:
    """The same of ln(memory / needed)."""
    away = max(-40.0, min(40.0, (room - typical) / spread))
    return STRAY / 2 + (1 - STRAY) / (1 + exp(away))
