"""The commands of `python -m mathlib`: what each is for, its examples, its options, its answer.

A command is a function with @command over it, in a module that parser.py imports.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

Answer = Callable[[Namespace], None]


@dataclass(frozen=True)
class Command:
    """One word behind `mathlib`."""

    says: str  # what for, in the help
    examples: tuple[str, ...]  # without `mathlib` before them
    options: Callable[[ArgumentParser], None]  # adds them to the command's parser
    answer: Answer  # works it out and prints it


COMMANDS: dict[str, Command] = {}


def command(
    name: str, says: str, *examples: str, options: Callable[[ArgumentParser], None]
) -> Callable[[Answer], Answer]:
    """Make a function the answer to `mathlib NAME`."""

    def register(answer: Answer) -> Answer:
        COMMANDS[name] = Command(says, examples, options, answer)
        return answer

    return register
