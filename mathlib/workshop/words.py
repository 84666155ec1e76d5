"""A puzzle and a report in words: the same for the command line and for a notebook."""

from collections.abc import Sequence

from mathlib.workshop.grade import Report, Result
from mathlib.workshop.puzzle import Budget, Puzzle


def notes(puzzle: Puzzle) -> list[str]:
    """Where a fault was found, and which names a program finds."""
    found = [f"Found in {puzzle.address}"] if puzzle.thread else []
    names = ", ".join(sorted(puzzle.given))
    return [*found, *([f"A program finds: {names}."] if names else [])]


def tests(puzzle: Puzzle) -> list[str]:
    """What is tried, and the most that it may take."""
    return [f"test: {trial.says}{most(trial.budgets)}" for trial in puzzle.trials()]


def most(budgets: Sequence[Budget]) -> str:
    """The most that a test allows."""
    return "".join(f"; {one.of} at most {one.most:g} ({one.formula})" for one in budgets)


def hint(puzzle: Puzzle, number: int) -> str:
    """One of three."""
    return f"Hint {number} of {len(puzzle.hints)}: {puzzle.hints[number - 1]}"


def rows(report: Report) -> list[tuple[str, str, str]]:
    """Each test, its verdict, and what it took."""
    return [(one.says, "wrong" if one.wrong else "right", took(one)) for one in report.results]


def took(result: Result) -> str:
    """What a test took of its budgets."""
    said = [
        f"{one.of} {result.took[one.of]:g} of {one.most:g}" for one in result.budgets if result.took
    ]
    return ", ".join(said)
