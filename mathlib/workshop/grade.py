"""Grading a program: each visible test in turn, what is wrong with it, what it took."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from mathlib.checks import one_of
from mathlib.records import dataclass, replace
from mathlib.workshop import clinic, puzzles
from mathlib.workshop.puzzle import MEASURES, NUMBERS, Budget, Puzzle, Trial
from mathlib.workshop.ranks import Span, run
from mathlib.workshop.steps import FILE, Fault, Steps, Unending

SLACK = 1e-9  # times are sums of fractions


@dataclass(frozen=True)
class Result:
    """Of one visible test."""

    says: str  # what was tried
    wrong: str  # what is wrong; "": nothing
    took: dict[str, float]  # by what is measured; nothing where the run did not end
    budgets: tuple[Budget, ...]
    timeline: tuple[tuple[Span, ...], ...] = ()  # of each rank
    endless: bool = False  # it was counted out


@dataclass(frozen=True)
class Report:
    """Of all tests of a puzzle."""

    puzzle: str
    results: tuple[Result, ...]

    @property
    def right(self) -> bool:
        return not any(one.wrong for one in self.results)

    @property
    def first(self) -> str:
        """The first thing that is wrong."""
        return next((one.wrong for one in self.results if one.wrong), "")

    def __str__(self) -> str:
        return self.first or "right"


def names() -> list[str]:
    """Of all puzzles, as they are typed, cases of the clinic among them."""
    files = [module.name.replace("_", "-") for module in iter_modules(puzzles.__path__)]
    return sorted([*files, *cases()])


@cache
def cases() -> dict[str, Puzzle]:
    """The clinic, by name."""
    modules = [f"{clinic.__name__}.{module.name}" for module in iter_modules(clinic.__path__)]
    return {one.name: one for module in modules for one in import_module(module).CASES}


def find(name: str) -> Puzzle:
    """A puzzle by its name."""
    one_of("puzzle", name, names())
    if name in cases():
        return cases()[name]
    found: Puzzle = import_module(f"{puzzles.__name__}.{name.replace('-', '_')}").PUZZLE
    return found


def every() -> list[Puzzle]:
    """In the order of the book's parts, from the first grade on."""
    return sorted(map(find, names()), key=lambda one: (one.grade, one.name))


def graded(name: str, text: str) -> Report:
    """Run a program's text through all tests of a puzzle, or until one does not end."""
    puzzle = find(name)
    try:
        defined = compiled(puzzle, text)
    except Fault as fault:
        return Report(name, (Result("the program can be read", str(fault), {}, ()),))
    results: list[Result] = []
    for trial in puzzle.trials():
        results.append(tried(trial, defined))
        if results[-1].endless:
            break
    return Report(name, tuple(results))


def compiled(puzzle: Puzzle, text: str) -> dict[str, Any]:
    """The names that a text defines."""
    defined: dict[str, Any] = {**NUMBERS, **puzzle.given, "__name__": "program"}
    with Steps("the file").counted():
        exec(compile(text, FILE, "exec"), defined)
    return defined


def tried(trial: Trial, defined: dict[str, Any]) -> Result:
    """One test."""
    program = defined.get(trial.entry)
    if not callable(program):
        said = f"there is no {trial.entry}: expected `async def {trial.entry}(me, ...)`"
        return Result(trial.says, said, {}, trial.budgets)
    try:
        outcome = run(program, trial.cluster, trial.inputs)
    except Fault as fault:
        endless = isinstance(fault, Unending)
        return Result(trial.says, str(fault), {}, trial.budgets, endless=endless)
    took = {name: measure(outcome) for name, (measure, _) in MEASURES.items()}
    wrong = next(trial.wrong(outcome), "") or over(trial, took)
    if trial.then and not wrong:
        after = tried(trial.then(outcome), defined)
        return replace(after, says=trial.says)
    timeline = tuple(tuple(outcome.timeline(rank)) for rank in range(trial.cluster.ranks))
    return Result(trial.says, wrong, took, trial.budgets, timeline)


def over(trial: Trial, took: dict[str, float]) -> str:
    """Which budget was not enough."""
    for one in trial.budgets:
        if took[one.of] > one.most * (1 + SLACK):
            unit = MEASURES[one.of][1]
            plural = "" if unit in one.of else f" {unit}s"
            return (
                f"right, but {one.of}: {took[one.of]:g}{plural}, and {one.formula} is {one.most:g}"
            )
    return ""
