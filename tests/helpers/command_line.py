"""What the tests of commands share: words become arguments, an answer becomes data."""

import json
import shlex

from mathlib.cli.parser import main, typed_of
from mathlib.cli.registry import every_command, find_command

COMMANDS = every_command()
EXAMPLES = [line for command in COMMANDS.values() for line in command.examples]


def args(line):
    return typed_of(shlex.split(line))


def answered(line, capsys):
    find_command(line.split()[0]).answer(args(f"{line} --json"))
    return json.loads(capsys.readouterr().out)


def ended(command, capsys):
    """A command's exit code, and what it printed; its words, or a line of them."""
    try:
        code = main(shlex.split(command) if isinstance(command, str) else command)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def answer_of(run, command):
    """The JSON of a command that ends well; it knows no infinity."""
    code, out, err = run(f"{command} --json")
    assert (code, err) == (0, ""), err

    def no_constant(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(out, parse_constant=no_constant)
