"""How a run that did not end well is told: each program ends badly on rank 1 while the others wait
for it in a collective.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE
from processes import raises

from mathlib import launch
from mathlib.launch import failure, launcher


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


def ends_by_a_real_time_signal():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 40)
    dist.barrier()


def is_killed_after_its_result():
    """Rank 1 waits for the others to end when rank 0 sees its result and kills it."""
    numbers: list = [None] * 3
    dist.all_gather_object(numbers, os.getpid())
    if dist.get_rank() == 0:
        home = Path("/proc/self/fd/1").readlink().parent
        while not (home / "result.1").exists():
            time.sleep(0.01)
        os.kill(numbers[1], signal.SIGKILL)
        time.sleep(1000)


def aborts():
    if dist.get_rank() == 1:
        os.write(2, b"terminate called after throwing\n  what():  no way\n")
        os.abort()
    dist.barrier()


def returns_a_lock():
    if dist.get_rank() == 1:
        return threading.Lock()


def raises_while_others_compute():
    word = torch.zeros(1)
    if dist.get_rank() == 1:
        for other in range(dist.get_world_size()):
            if other != 1:
                dist.recv(word, other)  # it has joined: its connections no longer can fail it
        raise ValueError("the learning rate is a banana")
    dist.send(word, 1)
    while True:
        pass


BANANA = (
    'raise ValueError("the learning rate is a banana")\nValueError: the learning rate is a banana'
)
SEGV = "it was ended by SIGSEGV (Segmentation fault) before its function returned"
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
    "is killed": (
        is_killed,
        "it was ended by SIGKILL (Killed) before its function returned",
        "fork",
    ),
    "returns a lock": (
        returns_a_lock,
        "TypeError: rank 1 returned a lock that cannot be pickled",
        "fork",
    ),
    "is ended by a real-time signal": (
        ends_by_a_real_time_signal,
        "it was ended by signal 40 (Real-time signal 6) before its function returned",
        "fork",
    ),
    "is killed after its result": (
        is_killed_after_its_result,
        "it was ended by SIGKILL (Killed) after its function returned",
        "fork",
    ),
    "aborts": (
        aborts,
        "it was ended by SIGABRT (Aborted) before its function returned; its last words: no way",
        "fork",
    ),
    "raises, fresh": (raises, BANANA, "fresh"),
    "segfaults, fresh": (segfaults, SEGV, "fresh"),
}


@pytest.mark.parametrize(("program", "says", "how"), ENDS.values(), ids=ENDS)
def test_the_first_failure_is_told(program, says, how):
    with pytest.raises(launch.RankError) as caught:
        launch.run(program, 3 if how == "fork" else 2, how=how)
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
    monkeypatch.setattr(launcher, "GRACE", 0.1)
    with pytest.raises(launch.RankError) as caught:
        launch.run(raises_while_others_compute, 3)
    assert str(caught.value).endswith("banana\nstopped because of it: rank 0, rank 2")


def test_a_failure_ends_the_run_long_before_its_time_is_up():
    with pytest.raises(launch.RankError) as caught:
        launch.run(raises_while_others_compute, 4, timeout=PATIENCE)
    assert not isinstance(caught.value, launch.RankTimeout)


def waits_for_a_message_nobody_sends():
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(1), 1)
    elif dist.get_rank() == 1:
        threading.Thread(target=stands_elsewhere, daemon=True).start()
        while True:
            pass


def stands_elsewhere():
    time.sleep(1000)


@pytest.mark.parametrize("how", ["fork", "fresh"])
def test_a_hang_ends_and_shows_where_each_rank_stands(how):
    with pytest.raises(TimeoutError) as caught:
        launch.run(waits_for_a_message_nobody_sends, 3, timeout=3 if how == "fork" else 20, how=how)
    assert isinstance(caught.value, launch.RankTimeout)
    told, _, hint = str(caught.value).partition("\nDo they wait for ")
    head, zero, one, two = told.replace("\nrank", "\0rank").split("\0")
    assert head.startswith("2 of 3 ranks did not finish in")
    assert "dist.recv(torch.zeros(1), 1)" in zero
    assert "in waits_for_a_message_nobody_sends\n    " in one and "recv" not in one
    assert "stands_elsewhere" not in one, "only the thread that runs the function"
    assert "rank.py" not in told, "the launcher's own frames are no news"
    assert two == "rank 2: finished"
    assert hint.startswith("rank 2, whose function has returned? Then it left out a collective")


def test_nobody_is_blamed_when_all_hang():
    with pytest.raises(launch.RankTimeout) as caught:
        launch.run(lambda: time.sleep(1000), 2, timeout=1)
    assert "Do they wait" not in str(caught.value)


def test_a_rank_that_shows_no_stack_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(failure, "ANSWER", 0.05)

    def ask() -> None:
        (tmp_path / "stack.0").write_text('File "a.py", line 1 in work')

    told = failure.late(tmp_path, 2, 3, ask)
    lines = str(told).splitlines()
    assert lines == [
        "2 of 2 ranks did not finish in 3 seconds. Where they stand:",
        "rank 0:",
        '  File "a.py", line 1, in work',
        "rank 1: no answer",
    ]
    assert told.failures == {0: '\n  File "a.py", line 1, in work', 1: ""}


def test_a_later_failure_is_told_by_its_first_line(tmp_path):
    said = {
        0: {"error": "...", "summary": "ValueError: too late\nand more", "when": 2.0},
        1: {"error": "the first", "summary": "the first", "when": 1.0},
        2: {"error": "...", "summary": "connectFullMesh failed", "when": 3.0},
    }
    told = failure.failed(said, {0: 1, 1: 1, 2: 1}, 3, tmp_path)
    assert str(told).splitlines() == [
        "rank 1 failed first:",
        "the first",
        "then rank 0: ValueError: too late",
        "then rank 2: it lost the connection to another rank",
    ]
