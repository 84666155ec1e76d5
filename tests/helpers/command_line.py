"""What the tests of commands share: words become arguments, an answer becomes data."""

import json
import shlex

from mathlib.cli.parser import typed_of
from mathlib.cli.registry import find_command


def args(line):
    return typed_of(shlex.split(line))


def answered(line, capsys):
    find_command(line.split()[0]).answer(args(f"{line} --json"))
    return json.loads(capsys.readouterr().out)
