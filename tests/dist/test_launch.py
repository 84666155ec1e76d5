"""The launcher: results come back, failures are told, nothing is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from mathlib.checks import InputError
from mathlib.dist import launch, start

ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def own_directories() -> list[Path]:
    return list(Path("/dev/shm").glob(f"ranks-{os.getpid()}-*"))


def eventually(what, seconds: float = 10.0):
    """Wait for something that must become true, and fail if it does not."""
    until = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
    return value


def mean_of_ranks(scale: float, shift: float = 0.0) -> tuple[int, float]:
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return dist.get_rank(), x.item() / dist.get_world_size() * scale + shift


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_results_come_in_the_order_of_ranks(world_size):
    mean = (world_size - 1) / 2
    assert launch.run(mean_of_ranks, world_size, 2, shift=1) == [(rank, mean * 2 + 1) for rank in range(world_size)]


def test_fresh_interpreters_do_the_same():
    assert launch.run(mean_of_ranks, 2, 2, how="fresh") == [(0, 1.0), (1, 1.0)]
    assert not own_directories()


def test_a_function_may_close_over_what_it_finds_and_return_tensors():
    weight = torch.arange(3.0)
    results = launch.run(lambda: weight + dist.get_rank(), 2)
    assert [r.tolist() for r in results] == [[0, 1, 2], [1, 2, 3]]


def test_prints_are_labelled_and_in_the_order_of_ranks(capsys):
    def speak():
        for rank in reversed(range(3)):  # rank 2 speaks first
            dist.barrier()
            if dist.get_rank() == rank:
                print(f"one of {rank}\ntwo of {rank}")
                os.write(1, b"past Python\n")
                print("aside", file=sys.stderr)

    launch.run(speak, 3)
    out, err = capsys.readouterr()
    words = [(f"one of {rank}", f"two of {rank}", "past Python") for rank in range(3)]
    assert out.splitlines() == [f"[rank {rank}] {word}" for rank in range(3) for word in words[rank]]
    assert err.splitlines() == [f"[rank {r}] aside" for r in range(3)]
    launch.run(speak, 3, echo=False)
    assert capsys.readouterr() == ("", "")


def test_what_was_printed_before_a_failure_is_shown(capsys):
    def speak() -> None:
        print("before", "\ud800")  # half a character, which no encoding has
        raise ValueError

    with pytest.raises(launch.RankError):
        launch.run(speak, 1)
    assert capsys.readouterr() == ("[rank 0] before \\ud800\n", "")


def test_a_rank_stands_where_the_launcher_stands(tmp_path, monkeypatch):
    launch.run(mean_of_ranks, 1, 1)  # the server has started, elsewhere, with a setting of its own
    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_SETTING", "set after the server started")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fresh_module.py").write_text("WORD = 'found'")

    def look():
        import fresh_module

        place = [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
        settings = os.environ["SOME_SETTING"], os.environ.get("TORCH_CPP_LOG_LEVEL")
        return str(Path.cwd()), settings, fresh_module.WORD, torch.get_num_threads(), place

    expected = (str(tmp_path), ("set after the server started", None), "found")
    assert launch.run(look, 2) == [(*expected, 1, [str(r), str(r), "2", "2"]) for r in range(2)]
    assert launch.run(look, 1, threads=2)[0][3] == 2


def test_ranks_meet_on_the_machines_own_wires_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert launch.run(os.getenv, 1, "GLOO_SOCKET_IFNAME") == ["lo"]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-wire")
    with pytest.raises(launch.RankError, match="no-such-wire"):
        launch.run(mean_of_ranks, 2, 1)


# Failures. Each program ends badly on rank 1 while the others wait for it in a collective.


def raises():
    if dist.get_rank() == 1:
        raise ValueError("the learning rate is a banana")
    dist.barrier()


def leaves():
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()


def leaves_as_if_all_were_well():
    if dist.get_rank() == 1:
        os._exit(0)


def exits():
    if dist.get_rank() == 1:
        sys.exit("enough")
    dist.barrier()


def segfaults():
    import ctypes

    if dist.get_rank() == 1:
        ctypes.string_at(0)
    dist.barrier()


def is_killed():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def returns_a_lock():
    if dist.get_rank() == 1:
        return threading.Lock()


def raises_while_others_compute():
    if dist.get_rank() == 1:
        raise ValueError("the learning rate is a banana")
    while True:
        pass


BANANA = 'raise ValueError("the learning rate is a banana")\nValueError: the learning rate is a banana'
SEGV = "it was ended by SIGSEGV (Segmentation fault)"
ENDS = {
    "raises": (raises, BANANA, "fork"),
    "raises while others compute": (raises_while_others_compute, BANANA, "fork"),
    "leaves": (leaves, "it left with exit code 3 before its function returned", "fork"),
    "leaves as if all were well": (leaves_as_if_all_were_well, "it left with exit code 0 before its function", "fork"),
    "exits": (exits, "SystemExit: enough", "fork"),
    "segfaults": (segfaults, SEGV, "fork"),
    "is killed": (is_killed, "it was ended by SIGKILL (Killed)", "fork"),
    "returns a lock": (returns_a_lock, "TypeError: rank 1 returned a lock that cannot be pickled", "fork"),
    "raises, fresh": (raises, BANANA, "fresh"),
    "segfaults, fresh": (segfaults, SEGV, "fresh"),
}


@pytest.mark.parametrize(("program", "says", "how"), ENDS.values(), ids=ENDS)
def test_the_first_failure_is_told(program, says, how):
    with pytest.raises(launch.RankError) as caught:
        launch.run(program, 3, how=how)
    assert caught.value.rank == 1
    told = "\n".join(line.strip() for line in str(caught.value).splitlines() if set(line.strip()) - set("^~"))
    assert told.startswith("rank 1 failed") and says in told
    assert "rank.py" not in told, "the launcher's own frames are no news"


def test_the_others_are_told_in_a_line_each(monkeypatch):
    monkeypatch.setattr(launch, "GRACE", 10)  # all the time they need
    with pytest.raises(launch.RankError) as caught:
        launch.run(raises, 3)
    _, *others = str(caught.value).rpartition("banana")[2].splitlines()
    assert sorted(others) == [f"then rank {rank}: it lost the connection to another rank" for rank in (0, 2)]
    assert sorted(caught.value.failures) == [0, 1, 2]
    monkeypatch.setattr(launch, "GRACE", 0.1)
    with pytest.raises(launch.RankError) as caught:
        launch.run(raises_while_others_compute, 3)
    assert str(caught.value).endswith("banana\nstopped because of it: rank 0, rank 2")


def test_a_failure_arrives_within_a_second():
    launch.run(mean_of_ranks, 1, 1)
    seconds = []
    for _ in range(3):  # the best of three: the machine may be busy with something else
        begin = time.monotonic()
        with pytest.raises(launch.RankError):
            launch.run(raises_while_others_compute, 4)
        seconds.append(time.monotonic() - begin)
    assert min(seconds) < 1


def waits_for_a_message_nobody_sends():
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(1), 1)
    elif dist.get_rank() == 1:
        while True:
            pass


@pytest.mark.parametrize("how", ["fork", "fresh"])
def test_a_hang_ends_and_shows_where_each_rank_stands(how):
    with pytest.raises(TimeoutError) as caught:
        launch.run(waits_for_a_message_nobody_sends, 3, timeout=1 if how == "fork" else 8, how=how)
    assert isinstance(caught.value, launch.RankTimeout)
    head, zero, one, two = str(caught.value).replace("\nrank", "\0rank").split("\0")
    assert head.startswith("2 of 3 ranks did not finish in")
    assert "dist.recv(torch.zeros(1), 1)" in zero
    assert "in waits_for_a_message_nobody_sends\n    " in one and "recv" not in one
    assert two == "rank 2: finished"


def test_bad_input_is_refused_before_anything_starts():
    for wrong in (0, -1, 2.5, "four", None, True):
        with pytest.raises(InputError, match="world_size"):
            launch.run(mean_of_ranks, wrong, 1)
    with pytest.raises(InputError, match="timeout"):
        launch.run(mean_of_ranks, 1, 1, timeout=0)
    with pytest.raises(InputError, match="device"):
        launch.run(mean_of_ranks, 1, 1, device="gpu")
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be sent to the ranks"):
        launch.run(lambda: lock, 1)


# Nothing stays behind.


def descriptors(process: int | str) -> set[str]:
    return {entry.name for entry in Path(f"/proc/{process}/fd").iterdir()}


def leftovers() -> tuple[list[Path], set[str], list[str]]:
    """Directories of this process's runs; its descriptors; processes below its server."""
    server = start.Forked._server.pid
    return own_directories(), descriptors("self"), Path(f"/proc/{server}/task/{server}/children").read_text().split()


def test_a_hundred_runs_leave_nothing():
    launch.run(mean_of_ranks, 2, 1)
    before, server = leftovers(), start.Forked._server.pid
    of_server = descriptors(server)
    for number in range(100):
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


def test_two_runs_at_once_do_not_meet():
    with ThreadPoolExecutor(3) as pool:
        runs = {n: pool.submit(launch.run, mean_of_ranks, n, 1) for n in (2, 3, 4)}
    for n, run in runs.items():
        assert run.result() == [(rank, (n - 1) / 2) for rank in range(n)]


def test_a_rank_that_is_done_stays_while_others_still_connect_to_it():
    for _ in range(15):  # without the wait, three runs in eight fail on the machine where this was found
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
            runs["first"].result(timeout=4)
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
from mathlib.dist import launch
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
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", FORKS], env=env, **pipes) as process:
        server, of_fork = int(process.stdout.readline()), int(process.stdout.readline())
        process.wait()
        assert server != of_fork
        eventually(lambda: not alive(server) and not alive(of_fork))
        process.stdin.close()


AT_ONCE = """
import os, pathlib
from concurrent.futures import ThreadPoolExecutor
from mathlib.dist import launch
with ThreadPoolExecutor(4) as pool:
    servers = set(pool.map(lambda _: launch.run(os.getppid, 1)[0], range(4)))
children = "".join(file.read_text() for file in pathlib.Path("/proc/self/task").glob("*/children")).split()
print(len(servers), len(children))
"""


def test_first_runs_at_once_start_one_server():
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", AT_ONCE], env=env, check=True, capture_output=True, text=True).stdout
    assert said.split() == ["1", "1"]


SCRIPT = """
import os, sys, time, pathlib
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("from mathlib.dist import launch")
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
    """Start a process that runs cells as a kernel does; its ranks write their process numbers into tmp_path."""
    started = []

    def begin(what: str, how: str) -> subprocess.Popen:
        env = os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path), "TMPDIR": str(tmp_path)}
        started.append(subprocess.Popen([sys.executable, "-c", SCRIPT, what, how, str(tmp_path)], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_cell_that_fails_shows_the_line_of_the_cell(notebook):
    out = notebook("fails", "fork").communicate(timeout=60)[0]
    assert 'raise ValueError("from a cell")' in out and "ValueError: from a cell" in out


@pytest.mark.parametrize("how", ["fork", "fresh"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_kernel_that_is_stopped_takes_its_run_along(notebook, tmp_path, how, number):
    kernel = notebook("waits", how)
    files = eventually(lambda: len(found := list(tmp_path.glob("*.pids"))) == 2 and found, 60)
    home, *_ = words = " ".join(file.read_text() for file in files).split()
    pids = sorted({int(word) for word in words if word != home} - {kernel.pid})
    assert len(pids) == (5 if how == "fork" else 4), "two ranks, a child of each, and the server if there is one"
    assert all(map(alive, pids)) and Path(home, "task").exists()
    os.killpg(kernel.pid, number)  # as Jupyter does, and a terminal
    out = kernel.communicate(timeout=20)[0]
    assert ("KeyboardInterrupt" in out) == (number == signal.SIGINT)
    eventually(lambda: not any(map(alive, pids)), 3)
    assert not Path(home).exists()
