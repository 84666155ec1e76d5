"""What the tests of commands share: words become arguments, an answer becomes data."""

import json

from mathlib.cli.parser import build
from mathlib.cli.registry import COMMANDS


def args(line):
    return build().parse_args(line.split())


def answered(line, capsys):
    COMMANDS[line.split()[0]].answer(args(f"{line} --json"))
    return json.loads(capsys.readouterr().out)
