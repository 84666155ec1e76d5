"""A run that hangs says which rank waits for whom, in which collective of which group."""

import re
import time

import pytest
import torch
import torch.distributed as dist
from processes import eventually

from mathlib import launch
from mathlib.launch import failure, waiting


def hangs(kind: str, home) -> None:
    """Rank 2 is the one that everybody waits for; nobody is told for how long."""
    rank, x = dist.get_rank(), torch.ones(1)
    pair = dist.new_group([0, 1])
    dist.all_reduce(x)
    if rank == 2:
        if kind == "returns":
            return
        time.sleep(1000)
    if kind == "message":
        dist.recv(x, 2) if rank else dist.all_reduce(x, group=pair)
    else:
        dist.all_reduce(x, group=pair)
        dist.all_reduce(x)


TOLD = {
    "message": [
        r"rank 0 waits in allreduce, number 1 of group \S+, for rank 1 \(it entered 0\)",
        "rank 1 waits for a message of rank 2",
        "rank 2: waits for nobody",
    ],
    "collective": [
        r"rank 0 waits in allreduce, number 2 of group 0, for rank 2 \(it entered 1\)",
        r"rank 1 waits in allreduce, number 2 of group 0, for rank 2 \(it entered 1\)",
        "rank 2: waits for nobody",
    ],
}
TOLD["returns"] = TOLD["collective"]


@pytest.mark.parametrize("kind", TOLD)
def test_who_waits_for_whom(kind, monkeypatch, tmp_path):
    """Time is up as soon as ranks have written down that they wait."""

    def waits(*_):
        def settled():
            said = waiting.told(given["home"], 3)
            return said if len(said) == 3 else None

        eventually(settled)
        return stands(*_)

    given, stands = {}, failure.late
    monkeypatch.setattr(
        failure, "late", lambda home, *a: given.update(home=home) or waits(home, *a)
    )
    with pytest.raises(launch.RankTimeout) as caught:
        launch.run(hangs, 3, kind, tmp_path, timeout=1, watch=True)
    lines = str(caught.value).splitlines()
    for pattern in TOLD[kind]:
        assert any(re.fullmatch(pattern, line) for line in lines), (pattern, lines)


def test_what_is_through_is_not_waited_for():
    def works() -> float:
        x = torch.ones(1)
        for _ in range(3):
            dist.all_reduce(x)
        later = dist.irecv(torch.ones(1), (dist.get_rank() - 1) % 2)
        dist.send(x, (dist.get_rank() + 1) % 2)
        later.wait()
        return x.item()

    assert launch.run(works, 2, watch=True) == [8.0, 8.0]


def test_nothing_is_told_of_a_run_that_was_not_watched(tmp_path):
    assert waiting.told(tmp_path, 2) == []
