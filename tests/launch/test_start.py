"""Starting the processes of a run: one server for all runs of a process, or an interpreter each."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

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


@pytest.mark.parametrize("how", ["fork", "fresh"])
def test_torch_is_loaded_with_one_thread_of_blas_and_nothing_to_read(how, monkeypatch):
    monkeypatch.setattr(start.Forked, "_control", None)  # a server of its own
    monkeypatch.setattr(start.Forked, "_server", None)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)

    def look() -> tuple[list[str], str]:
        given = Path("/proc/self/environ").read_text().split("\0")  # as the process was started
        return [word for word in given if word.startswith("OPENBLAS")], str(
            Path("/proc/self/fd/0").readlink()
        )

    ((blas, reads),) = launch.run(look, 1, how=how)
    assert blas == ["OPENBLAS_NUM_THREADS=1"]
    assert reads == "/dev/null" if how == "fork" else reads.startswith("pipe:")
    if how == "fork":
        start.Forked._control.close()  # then the server leaves, and no error
        assert start.Forked._server.wait(120) == 0


def test_ctrl_c_and_the_end_of_a_terminal_do_not_reach_the_server():
    launch.run(os.getpid, 1)
    server = start.Forked._server.pid
    assert os.getsid(server) == server
    os.kill(server, signal.SIGINT)
    assert launch.run(os.getppid, 1) == [server]


def test_a_server_that_does_not_answer_is_cleared_away(monkeypatch):
    said: list[str] = []

    class Noting:
        def __init__(self, *names: str):
            for name in names:
                setattr(self, name, lambda name=name: said.append(name))

    monkeypatch.setattr(start.Forked, "_server", Noting("kill", "wait"))
    monkeypatch.setattr(start.Forked, "_control", None)
    start.Forked._clear_away()
    assert said == []
    monkeypatch.setattr(start.Forked, "_control", Noting("close"))
    start.Forked._clear_away()
    assert said == ["close", "kill", "wait"] and start.Forked._control is None


def test_a_run_is_over_when_the_server_hangs_up():
    """However little of its time was left."""
    ranks = start.Forked.__new__(start.Forked)
    ranks.sock, theirs = socket.socketpair()
    ranks.sock.settimeout(1e-9)
    gone = threading.Event()

    def serve() -> None:
        while theirs.recv(64):
            pass
        time.sleep(0.2)  # it takes its time to kill what runs
        gone.set()
        theirs.close()

    server = threading.Thread(target=serve)
    server.start()
    ranks.close()
    assert gone.is_set() and ranks.sock.fileno() == -1
    server.join()


def test_what_is_left_of_a_fresh_rank_that_ended(tmp_path):
    ranks = start.Fresh(tmp_path, 1)  # which finds no task there
    (process,) = ranks.running.values()
    assert list(ranks.ended(120)) == [(0, 1)]
    assert ranks.running == {} and process.stdin.closed


@pytest.mark.parametrize("groups", [True, False])
def test_a_fresh_rank_that_does_nothing_any_more_is_killed(tmp_path, monkeypatch, groups):
    os.mkfifo(tmp_path / "task")  # which nobody writes
    if not groups:
        monkeypatch.delattr(os, "killpg")
    ranks = start.Fresh(tmp_path, 1)
    (process,) = ranks.running.values()
    process.send_signal(signal.SIGSTOP)
    ranks.close()
    assert process.returncode == -signal.SIGKILL and process.stdin.closed


STDIN = """
import os
from mathlib import launch
from mathlib.launch import start
launch.run(int, 1)
print(os.readlink(f"/proc/{start.Forked._server.pid}/fd/0"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_server_leaves_the_launchers_input_alone():
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": ENVIRONMENT, "text": True}
    script = subprocess.Popen([sys.executable, "-c", STDIN], **how)
    said, _ = script.communicate("for nobody but the launcher")
    assert said.strip() == "/dev/null"
