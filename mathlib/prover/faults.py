"""Ways to get a layout wrong, each in one decision of a rank's program; most are from real threads.

A fault is a program that does one thing differently, a layout in which that matters, and where it
is first seen: what is wrong in a step is seen in the first tensor that depends on it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from mathlib.checks import one_of
from mathlib.layout import Layout
from mathlib.prover.case import Case, case
from mathlib.prover.program import Program
from mathlib.prover.prove import Verdict, prove
from mathlib.prover.ranks import Asks

AXES = ("tensor", "data", "zero", "context", "pipeline", "experts")


class Fault(NamedTuple):
    """Something done wrong."""

    name: str
    axis: str  # one of AXES
    says: str  # what is wrong, a sentence
    first: str  # where it is first seen: kind, tensor, rank; or "stuck"
    source: str  # a thread that is about it; may be empty
    layout: Layout
    options: dict[str, Any]  # of the case
    program: type[Program]

    def case(self) -> Case:
        return case(self.layout, **self.options)

    def proved(self) -> Verdict:
        """What the prover says of it."""
        return prove(self.case(), self.program)


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, layout: Layout, first: str, source: str = "", **options: Any
) -> Callable[[type[Program]], type[Program]]:
    """Registers a program; its sentence is the class's docstring, its axis the module's name."""

    def register(program: type[Program]) -> type[Program]:
        axis = program.__module__.rpartition("_")[2]
        says = " ".join((program.__doc__ or "").split())
        FAULTS[name] = Fault(name, axis, says, first, source, layout, options, program)
        return program

    return register


def every() -> dict[str, Fault]:
    """All faults, by axis."""
    for axis in AXES:
        import_module(f"mathlib.prover.faults_{axis}")
    return {name: FAULTS[name] for axis in AXES for name in FAULTS if FAULTS[name].axis == axis}


def find(name: str) -> Fault:
    """A fault by its name."""
    return every()[one_of("fault", name, every())]


def own_share(program: Program, kind: str, axis: str, payload: Any) -> Any:
    """What a rank has of a collective in which it does not take part."""
    place = program.group(axis).index(program.rank)
    return payload[place] if kind == "reduce-scatter" else payload


class Without(Program):
    """A program that leaves a collective out: on all ranks, which go on with their own share."""

    kind = "all-reduce"
    axis = ""  # any
    ending = ""  # of what it is called

    def exchange(self, kind: str, axis: str, payload: Any, what: str) -> Asks:
        if kind == self.kind and self.axis in ("", axis) and what.endswith(self.ending):
            return own_share(self, kind, axis, payload)
        return (yield from super().exchange(kind, axis, payload, what))


def first_of(verdict: Verdict) -> str:
    """Where a verdict sees a fault first, as a fault says it."""
    one = verdict.first
    if verdict.stuck:
        return "stuck"
    return f"{one.kind} {one.tensor} rank {one.rank}" if one else "equal"
