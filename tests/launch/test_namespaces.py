"""Namespaces: what they hold, that they are gone afterwards however a run ends, and what is done
where there are none.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
from patience import PATIENCE
from processes import ENVIRONMENT, eventually, raises

from mathlib import launch
from mathlib.checks import InputError
from mathlib.launch import lab, namespaces
from mathlib.schedule.cluster import Cluster, Link

CLUSTER = Cluster((2, 1), between=Link(20e6), ports={1: Link()})


def lacking() -> str:
    """Why this machine has no namespaces; none is left of the try."""
    with namespaces.made(CLUSTER) as place:
        return place.why


@pytest.fixture(scope="module")
def needed():
    if why := lacking():
        pytest.skip(why)


NAMESPACES = pytest.mark.usefixtures("needed")


def own() -> str:
    """The namespace that this process is in."""
    return str(Path("/proc/self/ns/net").readlink())


def stand() -> tuple[str, list[str], str]:
    """This rank's namespace, its interfaces, and the rate of its node's port."""
    dist.barrier()
    shaped = subprocess.run(["tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True)
    return own(), interfaces(), shaped.stdout


def held() -> set[str]:
    """Network namespaces that some process of this machine is in or holds open, or that have a
    name.
    """
    found = set()
    for name in Path("/run/netns").glob("*"):
        with contextlib.suppress(OSError):
            found.add(f"net:[{name.stat().st_ino}]")
    for process in Path("/proc").glob("[0-9]*"):
        for entry in (process / "ns/net", *process.glob("fd/*")):
            try:
                found.add(str(entry.readlink()))
            except OSError:
                continue
    return {name for name in found if name.startswith("net:")}


def interfaces() -> list[str]:
    """What this process's own namespace has."""
    return sorted(at.name for at in Path("/sys/class/net").iterdir())


@NAMESPACES
def test_each_node_has_a_namespace_and_a_bucket_of_its_rate():
    (a, _, first), (b, _, second), (c, _, third) = launch.run(stand, cluster=CLUSTER)
    assert a == b != c and own() not in (a, c)
    assert "tbf" in first and "rate 160Mbit" in first and second == first, "bits, not bytes"
    assert "tbf" not in third, "no limit, no bucket"


@NAMESPACES
def test_fresh_interpreters_enter_them_too():
    ranks = launch.run(stand, cluster=CLUSTER, how="fresh")
    assert len({name for name, *_ in ranks}) == 2


def says_where(folder: Path) -> None:
    (folder / f"rank{dist.get_rank()}").write_text(own())
    dist.barrier()


def says(file: Path) -> bool:
    return bool(file.read_text())


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # in background it is ignored
import torch.distributed as dist
from mathlib import launch
from mathlib.schedule.cluster import Cluster

def waits(folder):
    dist.barrier()
    Path(folder, f"rank{dist.get_rank()}").write_text(os.readlink("/proc/self/ns/net"))
    time.sleep(1000)

if __name__ == "__main__":
    cluster = Cluster((1, 1))
    launch.run(waits, None, sys.argv[1], cluster=cluster, network="namespaces", timeout=1000)
"""


@NAMESPACES
@pytest.mark.parametrize("end", ["return", "raise", "death", "SIGINT", "SIGKILL"])
def test_nothing_is_left_however_a_run_ends(end, tmp_path):
    before = interfaces()
    if end.startswith("SIG"):
        call = [sys.executable, "-c", SCRIPT, str(tmp_path)]
        script = subprocess.Popen(call, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        eventually(lambda: script.poll() or sum(map(says, tmp_path.iterdir())) == 2)
        script.send_signal(getattr(signal, end))
        script.wait(PATIENCE)
    elif end == "return":
        launch.run(says_where, None, tmp_path, cluster=Cluster((1, 1)))
    else:

        def ends() -> None:
            says_where(tmp_path)
            if end == "raise":
                raises()
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(launch.RankError):
            launch.run(ends, cluster=Cluster((1, 1)))
    ours = {(tmp_path / f"rank{rank}").read_text() for rank in range(2)}
    assert len(ours) == 2
    eventually(lambda: not ours & held())
    assert interfaces() == before


def test_where_there_are_none_it_says_so_and_paces(monkeypatch):
    def way() -> tuple[str, str]:
        return lab.here().place[:2]

    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    assert launch.run(way, cluster=CLUSTER) == [("paced", "namespaces need root")] * 3
    with pytest.raises(InputError, match="namespaces need root; expected 'paced' here"):
        launch.run(way, cluster=CLUSTER, network="namespaces")
    with pytest.raises(InputError, match="network = 'tokens'"):
        launch.run(way, cluster=CLUSTER, network="tokens")
    monkeypatch.undo()
    assert launch.run(way, cluster=CLUSTER, network="paced") == [("paced", "asked for")] * 3


@pytest.mark.parametrize(
    ("patched", "told"), [("platform", "namespaces need Linux"), ("which", "ip and tc (iproute2)")]
)
def test_what_is_lacking_is_named(patched, told, monkeypatch):
    if patched == "platform":
        monkeypatch.setattr(namespaces.sys, "platform", "darwin")
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces.shutil, "which", lambda _: None)
    assert told in lacking()


def test_tools_that_refuse_are_quoted(monkeypatch, tmp_path):
    """As in a container whose root may do nothing."""
    for tool in ("ip", "tc"):
        (tmp_path / tool).write_text("#!/bin/sh\necho not permitted >&2; exit 2\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    assert lacking().startswith("namespaces cannot be made: ")


def test_the_number_of_ranks_is_the_clusters():
    with pytest.raises(InputError, match="world_size = 2: the cluster has 3 ranks"):
        launch.run(stand, 2, cluster=CLUSTER)
