"""What a puzzle is: a task, a program to start from, visible tests, budgets, hints, a solution.

A test runs the program on ranks, and says what is wrong with what came of it.  A budget is what the
formula of a chapter says that it takes; a right program that takes more is not done yet.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mathlib.records import dataclass
from mathlib.schedule.cluster import Cluster
from mathlib.workshop import collectives, tensor
from mathlib.workshop.ranks import Me, Outcome
from mathlib.workshop.sketch import Sketch

CLINIC = 4
GRADES = {1: "first steps", 2: "practice", 3: "hard", CLINIC: "find the fault"}
NUMBERS = {name: getattr(tensor, name) for name in ("join", "matrix", "vector", "zeros")}
COLLECTIVES = {
    name: getattr(collectives, name)
    for name in ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
}
MEASURES: dict[str, tuple[Callable[[Outcome], float], str]] = {  # of a run; its unit
    "bytes sent": (lambda o: max(o.run.sent), "byte"),  # by the rank that sends most
    "bytes between nodes": (lambda o: o.crossing, "byte"),
    "messages": (lambda o: max(o.run.messages), "message"),
    "time": (lambda o: o.run.total, "second"),
    "live numbers": (lambda o: max(o.peaks), "number"),
}


@dataclass(frozen=True)
class Budget:
    """The most that a run may take."""

    of: str  # one of MEASURES
    most: float
    formula: str  # where the value is from, in words or letters


@dataclass(frozen=True)
class Trial:
    """A visible test: a run, and what must come of it."""

    says: str  # what is tried
    cluster: Cluster
    inputs: Callable[[Me], Sequence[Any]]
    wrong: Callable[[Outcome], Iterator[str]]  # what is wrong, in the subject's words
    budgets: tuple[Budget, ...] = ()
    entry: str = "program"  # the function that ranks run
    then: Callable[[Outcome], "Trial"] | None = None  # what goes on from what came of this
    kept: Callable[[Me], Any] = lambda me: None  # what a rank has at its end, besides its result


@dataclass(frozen=True)
class Puzzle:
    """See the module's docstring."""

    name: str
    title: str
    chapter: str  # its word
    grade: int  # one of GRADES
    task: str  # in five sentences
    hints: tuple[str, str, str]
    sketch: Sketch  # what its picture shows
    trials: Callable[[], list[Trial]]
    start: str  # a program that runs, and is wrong
    solution: str
    given: Mapping[str, Any]  # names that a program finds
    thread: str = ""  # of the clinic: where the fault was found, owner/repository#number

    @property
    def address(self) -> str:
        """Of the thread."""
        repository, _, number = self.thread.partition("#")
        return f"https://github.com/{repository}/issues/{number}" if number else ""

    @property
    def sentences(self) -> list[str]:
        """Of the task."""
        return re.split(r"(?<=[.?]) ", " ".join(self.task.split()))


def text_of(*functions: Callable[..., Any]) -> str:
    """Their source, as a reader's file has it: without the name that says which version it is."""
    whole = "\n\n".join(map(inspect.getsource, functions))
    for word in ("start", "solution"):
        whole = whole.replace(f"def {word}(", "def program(").replace(f"def {word}_", "def ")
    return whole
