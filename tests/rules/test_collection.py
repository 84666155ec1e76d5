"""No test is lost: plain `pytest` collects every test file, and so do the parts of `make test`
together, each once.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}


def selected(command: str) -> set[Path]:
    """The test files that a pytest command takes, by the folders it names and leaves out."""
    words = shlex.split(command, comments=True)[1:]
    left_out = [Path(word.removeprefix("--ignore=")) for word in words if "--ignore" in word]
    named = [Path(word) for word in words if not word.startswith("-")] or [Path("tests")]
    assert all((ROOT / folder).is_dir() for folder in [*left_out, *named])
    options = {word for word in words if word.startswith("-") and "--ignore=" not in word}
    options -= {
        "--numprocesses=2",
        "--dist=loadfile",
        "--dist=loadgroup",
    }  # who runs them, not which
    assert not options, f"{options} may leave tests out"
    inside = {file for file in FILES if set(named) & set(file.parents)}
    return {file for file in inside if not set(left_out) & set(file.parents)}


def test_plain_pytest_collects_every_test_file():
    """pytest leaves out folders of some names, such as dist, and does not say so."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    collected = {Path(line.split("::")[0]) for line in found.splitlines() if "::" in line}
    assert collected == FILES


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_parts_of_make_test_are_all_tests_each_once():
    given = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = [f"--old-file=.venv/{stamp}" for stamp in (".book", ".all")]  # nothing to install
    said = subprocess.run(
        ["make", "-n", *done, "test"], cwd=ROOT, env=given, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    commands = [line for line in said.stdout.splitlines() if re.search(r"/pytest\b", line)]
    parts = [selected(command) for command in commands if "--nbval" not in command]
    assert len(parts) == 3 and len(commands) == 4, "formulas, runs, site; and the notebooks"
    assert set().union(*parts) == FILES, "a test that no part runs"
    assert sum(map(len, parts)) == len(FILES), "a test that two parts run"
    assert said.stdout.count(" of 5: ") == 5, "each part says which it is"
