"""Whatever is marked as a command can be called, and nothing is listed by hand besides."""

import re
from pathlib import Path

from mathlib import cli
from mathlib.cli import registry


def test_every_command_stands_in_the_module_that_is_named_for_it():
    marked = {
        name: path.stem
        for path in Path(cli.__file__).parent.glob("*.py")
        for name in re.findall(r'^@command\(\s*"(\w+)"', path.read_text("utf-8"), re.M)
    }
    assert len(marked) > 5 and marked == registry.MODULES
    assert set(registry.every_command()) == set(marked)


def test_a_command_is_what_its_mark_says(monkeypatch):
    monkeypatch.setattr(registry, "COMMANDS", {})

    @registry.command("greet", "a greeting", "greet", "greet you", options=print)
    def greet(args):
        return None

    wanted = registry.Command("a greeting", ("greet", "greet you"), print, greet)
    assert registry.COMMANDS["greet"] == wanted
