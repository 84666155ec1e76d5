"""As wide as the terminal and with colour there; whole and plain where it goes into a pipe."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import mathlib
from mathlib.cli import terminal, text


@pytest.fixture
def forty(monkeypatch):
    monkeypatch.setattr(terminal, "width", lambda: 40)
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)


def test_a_pipe_gets_everything_and_no_colour():
    assert terminal.width() == terminal.PLAIN and terminal.paint("a", "good") == "a"


def test_colour_can_be_left_out(forty, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("fits", "good") == "\x1b[32mfits\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("fits", "good") == "fits"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("fits", "good") == "fits"


def test_a_wide_table_loses_columns_from_the_right_and_says_so(forty):
    head = ["name", "one", "two", "three"]
    lines = text.columns(head, [["x" * 20, "1" * 10, "2" * 10, "3"]]).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].split() == ["name", "one"] and "two, three" in lines[-2]
    assert text.columns(["a", "b"], [["x" * 50, "y"]]).splitlines()[-1].endswith("...")
    assert text.wrapped("word " * 20).count("\n") == 2
    under = text.wrapped("  name  " + "word " * 20, 6).splitlines()
    assert len(under) > 2 and all(line.startswith(" " * 8 + "word") for line in under[1:])


def test_columns_that_fit_are_kept():
    assert terminal.kept_columns([10, 10, 10], 34) == 3
    assert terminal.kept_columns([10, 10, 10], 33) == 2
    assert terminal.kept_columns([100, 100], 10) == 2, "two at least"


def test_progress_is_for_those_who_read_along(capsys, monkeypatch):
    terminal.progress("half")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    terminal.progress("half")
    assert capsys.readouterr().err.endswith("half")


def in_terminal(words, columns):
    """What a command prints into a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    root = str(Path(mathlib.__file__).parent.parent)
    environment = os.environ | {"TERM": "xterm", "PYTHONPATH": root, "NO_COLOR": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "mathlib", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) in (0, 1), said
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "line",
    [
        "models llama",
        "memory llama2-7b --memory 80GB",
        "plan llama2-7b --cluster dgx-a100 --devices 8 --batch 16",
        "memory --help",
    ],
)
def test_no_line_is_wider_than_the_terminal(line):
    said = in_terminal(line.split(), 72)
    plain = re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", said).partition("examples:")[0]
    assert plain and max(map(len, plain.splitlines())) <= 72
    if line.startswith("memory llama"):
        assert "\x1b[31mdoes not fit" in said
    if line.startswith("plan"):
        assert "slower: " in plain, "reasons that have no room beside stand below"
