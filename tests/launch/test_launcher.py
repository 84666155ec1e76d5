"""The launcher: results come back, and failures are told."""

import linecache
import os
import pickle
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from processes import mean_of_ranks, own_directories

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


def test_ranks_meet_on_the_machines_own_wires_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert launch.run(os.getenv, 1, "GLOO_SOCKET_IFNAME") == ["lo"]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-wire")
    with pytest.raises(launch.RankError, match="no-such-wire"):
        launch.run(mean_of_ranks, 2, 1)


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


def test_a_run_inside_a_rank_is_a_run_of_its_own():
    def inner() -> list:
        return launch.run(mean_of_ranks, 2, 1) if dist.get_rank() else []

    assert launch.run(inner, 2) == [[], [(0, 0.5), (1, 0.5)]]


def test_half_of_torchruns_words_do_not_make_a_rank(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv("RANK", "0")
    assert launch.run(mean_of_ranks, 2, 1) == [(0, 0.5), (1, 0.5)]


def test_only_torchruns_processes_need_not_say_how_many():
    with pytest.raises(InputError, match="how many ranks to start; only torchrun's processes know"):
        launch.run(print)


def test_a_run_keeps_its_files_in_memory_under_its_own_name():
    (out,) = launch.run(os.readlink, 1, "/proc/self/fd/1")
    home = Path(out).parent
    assert home.name.startswith(f"ranks-{os.getpid()}-")
    if os.access("/dev/shm", os.W_OK):
        assert home.parent == Path("/dev/shm")


def test_only_cells_go_along_of_what_is_kept_of_sources(monkeypatch):
    cell, file = (1, None, ["x\n"], "cell"), (1, 2.0, ["x\n"], "file")
    monkeypatch.setattr(linecache, "cache", {"cell": cell, "file": file, "lazy": (str,)})
    assert launcher._surroundings()["cells"] == {"cell": cell}


def test_a_run_of_less_than_a_second_has_its_time(tmp_path):
    class Ranks:
        def ended(self, seconds: float):
            result = {"value": pickle.dumps("done")}
            (tmp_path / "result.0").write_bytes(pickle.dumps(result))
            yield 0, 0

    assert launcher._collect(Ranks(), tmp_path, 1, 0.9) == ["done"]
