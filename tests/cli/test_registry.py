"""Whatever is marked as a command can be called, and nothing is listed by hand besides."""

import re
from pathlib import Path

from mathlib import cli
from mathlib.cli import parser, registry


def test_every_module_with_a_command_is_loaded_by_the_parser():
    files = [path.read_text("utf-8") for path in Path(cli.__file__).parent.glob("*.py")]
    marked = [name for text in files for name in re.findall(r'^@command\(\s*"(\w+)"', text, re.M)]
    assert len(marked) > 5 and sorted(marked) == sorted(parser.COMMANDS)


def test_a_command_is_what_its_mark_says(monkeypatch):
    monkeypatch.setattr(registry, "COMMANDS", {})

    @registry.command("greet", "a greeting", "greet", "greet you", options=print)
    def greet(args):
        return None

    wanted = registry.Command("a greeting", ("greet", "greet you"), print, greet)
    assert registry.COMMANDS["greet"] == wanted
