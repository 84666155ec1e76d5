"""The commands of `python -m mathlib`: what each is for, its examples, its options, its answer.

A command is a function with @command over it, in the module that MODULES names; only the module of
the command that is asked for is loaded, so that an answer comes at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mathlib.cli.typed import Typed
from mathlib.records import dataclass

if TYPE_CHECKING:
    from argparse import ArgumentParser

Answer = Callable[[Typed], None]
MODULES = {  # of each command, in the order of the help
    "params": "compute",
    "flops": "compute",
    "memory": "memory",
    "kv": "kv",
    "roles": "preference",
    "comm": "traffic",
    "groups": "traffic",
    "prove": "proofs",
    "grade": "workshop",
    "time": "steps",
    "mfu": "mfu",
    "cost": "costs",
    "fit": "fitting",
    "plan": "plans",
    "slower": "slower",
    "compare": "compare",
    "why": "why",
    "models": "names",
    "devices": "names",
    "clusters": "names",
    "recipes": "names",
    "runs": "names",
    "layouts": "names",
    "prices": "names",
    "where": "names",
    "schema": "schemas",
}


@dataclass(frozen=True)
class Command:
    """One word behind `mathlib`."""

    says: str  # what for, in the help
    examples: tuple[str, ...]  # without `mathlib` before them
    options: Callable[["ArgumentParser"], None]  # adds them to the command's parser
    answer: Answer  # works it out and prints it


COMMANDS: dict[str, Command] = {}


def command(
    name: str, says: str, *examples: str, options: Callable[["ArgumentParser"], None]
) -> Callable[[Answer], Answer]:
    """Make a function the answer to `mathlib NAME`."""

    def register(answer: Answer) -> Answer:
        COMMANDS[name] = Command(says, examples, options, answer)
        return answer

    return register


def find_command(name: str) -> Command:
    """The command of that name, its module loaded."""
    if name not in COMMANDS:
        __import__(f"mathlib.cli.{MODULES[name]}")  # as importlib does, without its loading
    return COMMANDS[name]


def every_command() -> dict[str, Command]:
    """All of them: for the help, and for tests."""
    return {name: find_command(name) for name in MODULES}
