"""The launcher: results come back, and failures are told."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from processes import mean_of_ranks, own_directories, raises

from mathlib import launch
from mathlib.checks import InputError
from mathlib.launch import launcher


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_results_come_in_the_order_of_ranks(world_size):
    mean = (world_size - 1) / 2
    assert launch.run(mean_of_ranks, world_size, 2, shift=1) == [
        (rank, mean * 2 + 1) for rank in range(world_size)
    ]


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
    assert out.splitlines() == [
        f"[rank {rank}] {word}" for rank in range(3) for word in words[rank]
    ]
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


BANANA = (
    'raise ValueError("the learning rate is a banana")\nValueError: the learning rate is a banana'
)
SEGV = "it was ended by SIGSEGV (Segmentation fault)"
ENDS = {
    "raises": (raises, BANANA, "fork"),
    "raises while others compute": (raises_while_others_compute, BANANA, "fork"),
    "leaves": (leaves, "it left with exit code 3 before its function returned", "fork"),
    "leaves as if all were well": (
        leaves_as_if_all_were_well,
        "it left with exit code 0 before its function",
        "fork",
    ),
    "exits": (exits, "SystemExit: enough", "fork"),
    "segfaults": (segfaults, SEGV, "fork"),
    "is killed": (is_killed, "it was ended by SIGKILL (Killed)", "fork"),
    "returns a lock": (
        returns_a_lock,
        "TypeError: rank 1 returned a lock that cannot be pickled",
        "fork",
    ),
    "raises, fresh": (raises, BANANA, "fresh"),
    "segfaults, fresh": (segfaults, SEGV, "fresh"),
}


@pytest.mark.parametrize(("program", "says", "how"), ENDS.values(), ids=ENDS)
def test_the_first_failure_is_told(program, says, how):
    with pytest.raises(launch.RankError) as caught:
        launch.run(program, 3, how=how)
    assert caught.value.rank == 1
    told = "\n".join(
        line.strip() for line in str(caught.value).splitlines() if set(line.strip()) - set("^~")
    )
    assert told.startswith("rank 1 failed") and says in told
    assert "rank.py" not in told, "the launcher's own frames are no news"


def test_the_others_are_told_in_a_line_each(monkeypatch):
    monkeypatch.setattr(launcher, "GRACE", 10)  # all the time they need
    with pytest.raises(launch.RankError) as caught:
        launch.run(raises, 3)
    _, *others = str(caught.value).rpartition("banana")[2].splitlines()
    assert sorted(others) == [
        f"then rank {rank}: it lost the connection to another rank" for rank in (0, 2)
    ]
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
