"""A puzzle in a notebook: its task and picture, hints, and a program of a cell graded."""

import inspect
from collections.abc import Callable
from html import escape
from textwrap import dedent
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.show import says
from mathlib.show.tables import Shown, table
from mathlib.workshop import grade, words
from mathlib.workshop.picture import picture

HEAD = ("test", "verdict", "took")


class Task:
    """What `workshop("ring")` shows."""

    def __init__(self, name: str):
        self.puzzle = grade.find(name)

    def grade(self, *programs: Callable[..., Any] | str) -> Shown:
        """A program of yours, or its text: right, or what is wrong; helpers stand behind it."""
        report = grade.graded(self.puzzle.name, self._text(programs))
        verdict = str(report)
        shown = table(HEAD, words.rows(report))
        html = f"{shown._repr_html_()}<p><b>{says.html(verdict)}</b></p>"
        return Shown(html, f"{shown!r}\n\n{verdict}")

    def hint(self, number: int) -> Shown:
        """One of three."""
        said = words.hint(self.puzzle, one_of("hint", number, (1, 2, 3)))
        return Shown(f"<p>{says.html(said)}</p>", said)

    @property
    def start(self) -> str:
        """The program to start from."""
        return self.puzzle.start

    def _text(self, programs: tuple[Callable[..., Any] | str, ...]) -> str:
        """All that is given as one file; the first is the program, whatever it is called."""
        if not programs:
            raise InputError("grade(): expected a program, such as grade(my_program), or its text")
        entries = dict.fromkeys(trial.entry for trial in self.puzzle.trials())
        named = [] if isinstance(programs[0], str) else [f"{programs[0].__name__}"]
        parts = [one if isinstance(one, str) else source_of(one) for one in programs]
        if named and list(entries) == ["program"] and named != ["program"]:
            parts.append(f"program = {named[0]}\n")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        puzzle = self.puzzle
        task = "\n".join(puzzle.sentences)
        last = "\n".join(words.tests(puzzle))
        return "\n\n".join([puzzle.title, task, *words.notes(puzzle), self.start.rstrip(), last])

    def _repr_html_(self) -> str:
        puzzle = self.puzzle
        told = [" ".join(puzzle.sentences), *words.notes(puzzle)]
        paragraphs = "".join(f"<p>{says.html(one)}</p>" for one in told)
        tests = "".join(f"<li>{says.html(one)}</li>" for one in words.tests(puzzle))
        return (
            f"<p><b>{escape(puzzle.title)}</b></p>{paragraphs}"
            f"{picture(puzzle)._repr_html_()}<pre>{escape(puzzle.start)}</pre><ul>{tests}</ul>"
        )


def source_of(function: Callable[..., Any]) -> str:
    """The text of a function of a cell or a file."""
    try:
        return dedent(inspect.getsource(function))
    except (OSError, TypeError):
        name = getattr(function, "__name__", repr(function))
        raise InputError(f"{name}: no source; expected a function of a cell, or a text") from None
