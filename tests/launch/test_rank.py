"""One rank: it stands where the launcher stands, and goes when it is told to."""

import io
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from processes import ENVIRONMENT, mean_of_ranks

from mathlib import launch
from mathlib.launch import failure, rank


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


def test_the_process_of_the_tests_computes_with_one_thread_too():
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a policy of Linux")
def test_threads_of_gloo_let_who_computes_go_on():
    def policies() -> list[int]:
        dist.new_group([0, 1])  # has threads of its own
        gloo = [
            task
            for task in Path("/proc/self/task").iterdir()
            if "gloo" in (task / "comm").read_text()
        ]
        return [os.sched_getscheduler(int(task.name)) for task in gloo]

    for found in launch.run(policies, 2):
        assert len(found) > 1 and set(found) == {os.SCHED_BATCH}


def test_what_is_printed_without_an_end_of_line_is_shown(capsys):
    def speak() -> None:
        sys.stdout.write("half a line")
        sys.stderr.write("and an aside")

    launch.run(speak, 1)
    assert capsys.readouterr() == ("[rank 0] half a line\n", "[rank 0] and an aside\n")


def test_a_rank_may_put_another_stream_in_the_place_of_its_output(capsys):
    def speak() -> None:
        sys.stdout = io.StringIO()
        os.write(1, b"still open\n")

    launch.run(speak, 1)
    assert capsys.readouterr().out == "[rank 0] still open\n"


def test_collectives_outlast_the_run_by_a_minute():
    """So that it is the launcher, who sees all ranks, that gives up first."""

    def patience() -> timedelta:
        return dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout

    assert launch.run(patience, 1, timeout=100) == [timedelta(seconds=160)]


def test_a_rank_takes_the_launchers_wish_to_be_careful(monkeypatch):
    launch.run(mean_of_ranks, 1, 1)  # the server has started without it
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    assert launch.run(lambda: dist.get_debug_level().name, 1) == ["DETAIL"]


def test_a_rank_leaves_with_1_where_its_function_failed(monkeypatch):
    codes: dict[int, int] = {}

    def failed(said, ended, world_size, home) -> launch.RankError:
        codes.update(ended)
        return launch.RankError("enough")

    monkeypatch.setattr(failure, "failed", failed)
    with pytest.raises(launch.RankError, match="enough"):
        launch.run(lambda: 1 / 0, 1)
    assert codes == {0: 1}


@pytest.mark.parametrize("local", [0, 1, 2])
def test_a_rank_on_gpus_takes_its_own_and_nccl(monkeypatch, local):
    """On a machine of two, which is made up here."""
    said: list[object] = []
    monkeypatch.setenv("LOCAL_RANK", str(local))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", said.append)
    monkeypatch.setattr(
        dist, "init_process_group", lambda *words, **more: said.append((words, more))
    )
    how = {"rank": 5, "world_size": 8, "timeout": 7.0}
    if local == 2:
        with pytest.raises(RuntimeError, match="local rank 2 has no GPU, this machine shows 2"):
            rank.join("cuda", None, "the store", **how)
        assert said == []
    else:
        rank.join("cuda", None, "the store", **how)
        given = {**how, "timeout": timedelta(seconds=7), "store": "the store"}
        assert said == [local, (("nccl",), given)]


def watched(words: str, **streams) -> subprocess.Popen:
    """A process that watches its standard input, for a run whose directory is gone already."""
    call = f"import os, sys, time; from mathlib.launch import rank; {words}"
    return subprocess.Popen(
        [sys.executable, "-c", call], env=ENVIRONMENT, start_new_session=True, **streams
    )


WATCH = "rank.leave_with_launcher('/no/such/directory')"


def test_a_rank_is_killed_where_its_launcher_is_gone():
    waits = watched(f"{WATCH}; time.sleep(1000)", stdin=subprocess.DEVNULL)
    assert waits.wait(120) == -signal.SIGKILL
    without = watched(f"del os.killpg; {WATCH}; time.sleep(1000)", stdin=subprocess.DEVNULL)
    assert without.wait(120) == 1, "so it is where a system has no groups"


def test_watching_does_not_hold_up_a_rank_that_ends():
    with watched(WATCH, stdin=subprocess.PIPE) as ends:
        assert ends.wait(120) == 0


def stays() -> bool:
    """Whether rank 0, which has returned, is still there a while later."""
    pids = [os.getpid()]
    dist.broadcast_object_list(pids, src=0)
    if dist.get_rank() == 0:
        return True
    for _ in range(30):
        time.sleep(0.01)
        try:
            os.kill(pids[0], 0)
        except ProcessLookupError:
            return False
    return True


def test_a_rank_that_is_done_waits_for_the_others():
    assert launch.run(stays, 2) == [True, True]
