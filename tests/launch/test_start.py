"""Starting the processes of a run: one server for all runs of a process, or an interpreter each."""

import os
import subprocess
import sys

import pytest
from processes import ENVIRONMENT, alive, eventually

from mathlib import launch
from mathlib.launch import start

AT_ONCE = """
import os, pathlib
from concurrent.futures import ThreadPoolExecutor
from mathlib import launch
with ThreadPoolExecutor(4) as pool:
    servers = set(pool.map(lambda _: launch.run(os.getppid, 1)[0], range(4)))
files = pathlib.Path("/proc/self/task").glob("*/children")
children = "".join(file.read_text() for file in files).split()
print(len(servers), len(children))
"""


def test_first_runs_at_once_start_one_server():
    how = {"env": ENVIRONMENT, "check": True, "capture_output": True, "text": True}
    said = subprocess.run([sys.executable, "-c", AT_ONCE], **how).stdout
    assert said.split() == ["1", "1"]


def test_a_directory_on_the_module_path_means_the_same_elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "lib", "/absolute"])
    assert start.module_path() == [str(tmp_path), str(tmp_path / "lib"), "/absolute"]


@pytest.mark.parametrize("how", ["fork", "fresh"])
def test_ranks_are_stopped_with_what_they_started(how, tmp_path):
    def starts_a_child() -> None:
        child = subprocess.Popen(["sleep", "1000"]).pid
        (tmp_path / "pids").write_text(f"{os.getpid()} {child}")
        raise ValueError

    with pytest.raises(launch.RankError, match="ValueError"):
        launch.run(starts_a_child, 1, how=how)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    eventually(lambda: not any(map(alive, pids)))
