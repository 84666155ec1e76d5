"""A case of the clinic: a puzzle that starts with a fault from a public thread; mend the program.

Its task begins with what was seen.  Its hints say where to look, what is wrong, and what mends it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mathlib.checks import InputError
from mathlib.workshop.budgets import alone
from mathlib.workshop.diagnosis import differs, each_rank
from mathlib.workshop.puzzle import CLINIC, COLLECTIVES, Puzzle, Trial, text_of
from mathlib.workshop.ranks import Me
from mathlib.workshop.sketch import Sketch
from mathlib.workshop.tensor import Tensor

Known = Mapping[str, Sequence[Any]]  # what is said of a result, and each rank's that it is said of


def case(
    program: Callable[..., Any],
    *,
    title: str,
    chapter: str,
    thread: str,
    task: str,
    hints: tuple[str, str, str],
    edit: tuple[str, str],
    sketch: Sketch,
    trials: Callable[[], list[Trial]],
) -> Puzzle:
    """A program with a fault, and the edit that mends it."""
    name, (old, new) = program.__name__, edit
    start = text_of(program).replace(f"def {name}(", "def program(")
    if start.count(old) != 1:
        raise InputError(f"{name}: {old!r} stands {start.count(old)} times: expected once")
    return Puzzle(
        name=name.replace("_", "-"),
        title=title,
        chapter=chapter,
        grade=CLINIC,
        task=task,
        hints=hints,
        sketch=sketch,
        trials=trials,
        start=start,
        solution=start.replace(old, new),
        given=COLLECTIVES,
        thread=thread,
    )


def compared(
    says: str,
    inputs: Callable[[Me], Sequence[Any]],
    wanted: Sequence[Tensor],
    known: Known | None = None,
) -> Trial:
    """A tensor from each rank beside what it should be."""

    def wrong(rank: int, got: Any) -> str:
        own = {said: of[rank] for said, of in (known or {}).items()}
        return differs(got, wanted[rank], own)

    cluster = alone(len(wanted))
    return Trial(says, cluster, inputs, lambda out: each_rank(out.results, wrong))
