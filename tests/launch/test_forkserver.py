"""The launcher: no process, file or descriptor stays behind, whoever dies, and runs at once do not
meet.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE
from processes import ENVIRONMENT, alive, eventually, mean_of_ranks, own_directories, raises

import mathlib
from mathlib import launch
from mathlib.launch import forkserver, start


def descriptors(process: int | str) -> set[str]:
    return {entry.name for entry in Path(f"/proc/{process}/fd").iterdir()}


def leftovers() -> tuple[list[Path], set[str], list[str]]:
    """Directories of this process's runs; its descriptors; processes below its server."""
    server = start.Forked._server.pid
    return (
        own_directories(),
        descriptors("self"),
        Path(f"/proc/{server}/task/{server}/children").read_text().split(),
    )


def test_forty_runs_leave_nothing():
    launch.run(mean_of_ranks, 2, 1)
    before, server = leftovers(), start.Forked._server.pid
    of_server = descriptors(server)
    for number in range(40):
        if number % 10 == 3:
            with pytest.raises(launch.RankError):
                launch.run(raises, 2)
        else:
            launch.run(mean_of_ranks, 2, 1)
    assert leftovers() == before and start.Forked._server.pid == server
    assert descriptors(server) == of_server


def test_what_a_rank_started_ends_with_it():
    def starts_a_child():
        return subprocess.Popen(["sleep", "1000"]).pid

    pid = launch.run(starts_a_child, 1)[0]
    eventually(lambda: not alive(pid))


def test_a_rank_that_has_left_its_group_is_stopped_and_the_next_run_goes_on(tmp_path):
    def leaves_its_group() -> None:
        leader = os.fork()
        if not leader:
            os.setpgid(0, 0)
            time.sleep(120)
            os._exit(0)
        (tmp_path / "leader").write_text(str(leader))
        while os.getpgid(leader) != leader:
            time.sleep(0.01)
        os.setpgid(0, leader)
        (tmp_path / "left").touch()
        time.sleep(1000)

    def one_leaves() -> None:
        if dist.get_rank():
            leaves_its_group()
        eventually((tmp_path / "left").exists)
        raise ValueError("enough")

    with pytest.raises(launch.RankError, match="enough"):
        launch.run(one_leaves, 2, timeout=PATIENCE)
    try:
        assert launch.run(mean_of_ranks, 2, 1) == [(0, 0.5), (1, 0.5)]
    finally:
        os.kill(int((tmp_path / "leader").read_text()), signal.SIGKILL)


def test_two_runs_at_once_do_not_meet():
    with ThreadPoolExecutor(3) as pool:
        runs = {n: pool.submit(launch.run, mean_of_ranks, n, 1) for n in (2, 3, 4)}
    for n, run in runs.items():
        assert run.result() == [(rank, (n - 1) / 2) for rank in range(n)]


def test_a_rank_that_is_done_stays_while_others_still_connect_to_it():
    for _ in range(
        15
    ):  # without the wait, three runs in eight fail on the machine where this was found
        assert launch.run(lambda: None, 8) == [None] * 8


def test_a_run_ends_while_a_later_one_goes_on(tmp_path):
    def goes_on(name: str) -> None:
        (tmp_path / f"{name} begins").touch()
        while not (tmp_path / f"{name} ends").exists():
            time.sleep(0.01)

    with ThreadPoolExecutor(2) as pool:
        runs = {}
        for name in ("first", "second"):
            runs[name] = pool.submit(launch.run, goes_on, 1, name)
            eventually((tmp_path / f"{name} begins").exists)
        (tmp_path / "first ends").touch()
        try:
            runs["first"].result(timeout=PATIENCE)
        finally:
            (tmp_path / "second ends").touch()


def test_a_dead_server_is_named_and_replaced_and_its_ranks_are_gone(tmp_path):
    def kills_the_server():
        (tmp_path / str(os.getpid())).touch()
        dist.barrier()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)

    with pytest.raises(launch.RankError, match="the server that forks the ranks has died"):
        launch.run(kills_the_server, 2)
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    eventually(lambda: not any(map(alive, pids)))
    assert launch.run(mean_of_ranks, 2, 1) == [(0, 0.5), (1, 0.5)]


FORKS = """
import os, sys
from mathlib import launch
print(launch.run(os.getppid, 1)[0], flush=True)
if not os.fork():
    sys.stdin.read()  # this one keeps open what it inherited
elif not (runs := os.fork()):
    print(launch.run(os.getppid, 1)[0], flush=True)
else:
    os.waitpid(runs, 0)
"""


def test_a_server_serves_one_process_and_ends_with_it():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKS], env=ENVIRONMENT, **pipes) as process:
        server, of_fork = int(process.stdout.readline()), int(process.stdout.readline())
        process.wait()
        assert server != of_fork
        eventually(lambda: not alive(server) and not alive(of_fork))
        process.stdin.close()


SCRIPT = """
import os, signal, sys, time, pathlib
signal.signal(signal.SIGINT, signal.default_int_handler)  # in background it is ignored
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("from mathlib import launch")
shell.run_cell('''
def work():
    import subprocess
    child = subprocess.Popen(["sleep", "1000"]).pid
    home = pathlib.Path(os.readlink("/proc/self/fd/1")).parent
    (HERE / f"{os.environ['RANK']}.part").write_text(f"{home} {os.getpid()} {child} {os.getppid()}")
    (HERE / f"{os.environ['RANK']}.part").rename(HERE / f"{os.environ['RANK']}.pids")
    if WHAT == "fails":
        raise ValueError("from a cell")
    time.sleep(1000)
''')
WHAT, HOW, HERE = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
shell.user_ns.update(WHAT=WHAT, HERE=HERE, HOW=HOW, os=os, time=time, pathlib=pathlib)
shell.run_cell("launch.run(work, 2, how=HOW)")
"""


@pytest.fixture
def notebook(tmp_path):
    """Start a process that runs cells as a kernel does; its ranks write their process numbers into
    tmp_path.
    """
    started = []

    def begin(what: str, how: str) -> subprocess.Popen:
        env = ENVIRONMENT | {"IPYTHONDIR": str(tmp_path), "TMPDIR": str(tmp_path)}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", SCRIPT, what, how, str(tmp_path)],
                env=env,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_cell_that_fails_shows_the_line_of_the_cell(notebook):
    out = notebook("fails", "fork").communicate(timeout=PATIENCE)[0]
    assert 'raise ValueError("from a cell")' in out and "ValueError: from a cell" in out


@pytest.mark.parametrize("how", ["fork", "fresh"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_kernel_that_is_stopped_takes_its_run_along(notebook, tmp_path, how, number):
    kernel = notebook("waits", how)
    files = eventually(lambda: len(found := list(tmp_path.glob("*.pids"))) == 2 and found)
    home, *_ = words = " ".join(file.read_text() for file in files).split()
    pids = sorted({int(word) for word in words if word != home} - {kernel.pid})
    assert len(pids) == (5 if how == "fork" else 4), (
        "two ranks, a child of each, and the server if there is one"
    )
    assert all(map(alive, pids)) and Path(home, "task").exists()
    os.killpg(kernel.pid, number)  # as Jupyter does, and a terminal
    out = kernel.communicate(timeout=PATIENCE)[0]
    assert ("KeyboardInterrupt" in out) == (number == signal.SIGINT)
    eventually(lambda: not any(map(alive, pids)))
    assert not Path(home).exists()


def test_a_rank_finds_torch_loaded_and_what_a_server_had_changed_as_it_was():
    def look() -> list[object]:
        ours = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)]
        collector = gc.isenabled(), gc.get_freeze_count() > 0  # frozen: shared with the server
        return [ours, signal.set_wakeup_fd(-1), collector, "torch._dynamo" in sys.modules]

    assert launch.run(look, 1) == [[[signal.SIG_DFL] * 2, -1, (True, True), True]]


HAS = """
import sys
from mathlib import launch
from mathlib.meters import live
print(launch.run(lambda: [f"mathlib.meters.{name}" in sys.modules for name in ("live", "flop")], 1))
"""


def test_a_rank_finds_what_the_launcher_has_of_the_library():
    words = [sys.executable, "-c", HAS]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[True, False]]"


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


MODULE = "import torch; threads = torch.get_num_threads(); drawn = torch.rand(3); value = {}"


def test_a_module_is_loaded_once_on_one_thread_and_again_when_a_file_has_changed(
    tmp_path, monkeypatch, two_threads
):
    monkeypatch.setattr(mathlib, "__path__", [*mathlib.__path__, str(tmp_path)])
    names, library = ["mathlib.first", "mathlib.second"], forkserver.Library()
    for name in names:
        (tmp_path / name.replace("mathlib.", "")).with_suffix(".py").write_text(MODULE.format(1))
        monkeypatch.setitem(sys.modules, name, None)  # so that it is taken out at the end
        del sys.modules[name]
    state = torch.get_rng_state()
    library.load([*names, "mathlib.that_is_not_there"])
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == 2
    first = [sys.modules[name] for name in names]
    assert [module.threads for module in first] == [1, 1]
    library.load(names)
    assert [sys.modules[name] for name in names] == first
    (tmp_path / "second.py").write_text(MODULE.format("2 + 20"))
    library.load(names)
    assert sys.modules["mathlib.second"].value == 22 and sys.modules["mathlib.first"] != first[0]


def test_a_server_without_work_sleeps():
    launch.run(mean_of_ranks, 2, 1)
    stat = Path(f"/proc/{start.Forked._server.pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", seconds=20)


def test_a_runs_directory_may_have_spaces_and_be_gone(tmp_path):
    ours, theirs = socket.socketpair()
    ours.sendall(f"3 {tmp_path}/no such run\nmathlib.model.gpt\n".encode())
    run = forkserver.Run(theirs)
    assert run.modules == ["mathlib.model.gpt"]
    assert (run.world_size, run.directory) == (3, f"{tmp_path}/no such run")
    run.end()
    assert theirs.fileno() == -1
    ours.close()


@pytest.mark.parametrize(("server", "code"), [(os.getppid, 1), (os.getpid, 70)])
def test_a_fork_leaves_without_its_server_and_after_an_error(server, code):
    """It never comes back to what the server was doing."""
    ours = forkserver.Server.__new__(forkserver.Server)
    ours.pid = server()  # of the fork's parent, or of a process that is not
    pid = os.fork()
    if not pid:
        try:
            ours._become(None, 0)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
