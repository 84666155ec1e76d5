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
import yaml
from pages import ROOT, code_cells

CLOCK = re.compile(
    r"\b(perf_counter|monotonic|timeit)\b|\btime\.time\b|meters(\.| import .*)(clock|rates)\b"
)
FOUND = """
import sys, pytest

class Unread(pytest.Module):
    def collect(self):
        return []

class Files:  # said, and not imported: that takes half a minute
    def pytest_pycollect_makemodule(self, module_path, parent):
        print(module_path)
        return Unread.from_parent(parent, path=module_path)

sys.exit(pytest.main(sys.argv[1:], [Files()]) != pytest.ExitCode.NO_TESTS_COLLECTED)
"""
STORED = (ROOT / "chapters").rglob("*.ipynb")
NOTEBOOKS = sorted(path for path in STORED if path.parent.name != ".ipynb_checkpoints")
needs_make = pytest.mark.skipif(not shutil.which("make"), reason="needs make")
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
        "--numprocesses=4",
        "--dist=loadfile",
        "--dist=loadgroup",
        "--dist=worksteal",
        "--no-loadscope-reorder",
        "-pno:nbval",
    }  # who runs them, not which
    assert not options, f"{options} may leave tests out"
    inside = {file for file in FILES if set(named) & set(file.parents)}
    return {file for file in inside if not set(left_out) & set(file.parents)}


def test_plain_pytest_collects_every_test_file():
    """pytest leaves out folders of some names, such as dist, and does not say so."""
    command = [sys.executable, "-c", FOUND, "--collect-only", "-q", "-pno:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {Path(line).relative_to(ROOT) for line in found.splitlines() if ".py" in line} == FILES
    empty = {
        path
        for path in FILES
        if not re.search(r"^def test_", (ROOT / path).read_text("utf-8"), re.M)
    }
    assert not empty, "no test in it"


def made(*targets: str) -> list[str]:
    """What make would do for these targets, line by line."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    installed = (".venv/.book", ".venv/.all", "book/live/node_modules/.installed")
    done = [f"--old-file={stamp}" for stamp in installed]
    said = subprocess.run(
        ["make", "-n", *done, *targets], cwd=ROOT, env=given, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    return said.stdout.splitlines()


def pytest_commands() -> list[str]:
    return [line for line in made("test") if re.search(r"/pytest\b", line)]


@needs_make
def test_the_parts_of_make_test_are_all_tests_each_once():
    parts = [selected(command) for command in pytest_commands() if "--nbval" not in command]
    assert len(parts) == 3, "formulas, runs, site"
    assert set().union(*parts) == FILES, "a test that no part runs"
    assert sum(map(len, parts)) == len(FILES), "a test that two parts run"
    assert sum(" of 5: " in line for line in made("test")) == 5, "each part says which it is"


@needs_make
def test_all_chapters_run_and_none_compares_a_time():
    """Each once, five side by side, so that what a cell asserts holds beside neighbours."""
    (command,) = (shlex.split(c, comments=True) for c in pytest_commands() if "--nbval" in c)
    assert sorted(ROOT / word for word in command if word.endswith(".ipynb")) == NOTEBOOKS
    assert {"OMP_NUM_THREADS=1", "--numprocesses=5", "--dist=loadfile"} <= set(command)
    measured = {path for path in NOTEBOOKS if any(CLOCK.search(c.source) for c in code_cells(path))}
    shown = {path for path in NOTEBOOKS if "nbval-ignore-output" in path.read_text("utf-8")}
    assert measured <= shown, "a cell that shows a time: tag it nbval-ignore-output"


@needs_make
def test_the_service_s_jobs_beside_each_other_do_what_make_test_does():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))[
        "jobs"
    ].values()
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert command == "make ${{ matrix.part }}"
    assert not {"include", "exclude"} & set(job["strategy"]["matrix"]), "every part on every Python"
    parts = [line for part in job["strategy"]["matrix"]["part"] for line in made(*part.split())]
    whole = [line for line in made("test") if not line.startswith("echo ")]
    assert sorted(parts) == sorted(whole), "a part that no job runs, or that two run"
