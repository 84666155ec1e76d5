"""python -m mathlib: the formulas from the command line.

Bad input is one line on stderr and exit code 2.  Formulas are loaded when a command needs them, to
start quickly.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import NoReturn

from mathlib.checks import InputError
from mathlib.cli import compute, memory, names, traffic  # noqa: F401  each brings its commands
from mathlib.cli.registry import COMMANDS


class Parser(ArgumentParser):
    """argparse that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows examples)\n")


def build() -> Parser:
    parser = Parser(
        prog="mathlib",
        description="The arithmetic of training transformers.",
        epilog="mathlib COMMAND --help shows examples. Run as: python -m mathlib COMMAND",
    )
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    for name, command in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=command.says,
            description=command.says[0].upper() + command.says[1:] + ".",
            epilog="\n".join(["examples:", *[f"  mathlib {line}" for line in command.examples]]),
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.options(sub)
        sub.add_argument("--json", action="store_true", help="machine-readable, units named")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 for bad input, 130 when interrupted, 141 when nobody reads on."""
    try:
        args = build().parse_args(arguments)
        COMMANDS[args.command].answer(args)
        sys.stdout.flush()
        return 0
    except InputError as refused:
        print(f"mathlib: error: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # or Python complains when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
