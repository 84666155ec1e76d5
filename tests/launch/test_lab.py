"""What a rank of a cluster is held to: by connection, by message, by speed, until it dies."""

import math
import socket
import struct
import sys

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.launch import lab, slow_wires
from mathlib.parallel import collectives as own
from mathlib.schedule.cluster import Cluster, Link

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
INSIDE, BETWEEN, POOR = 8e6, 4e6, 1e6
MIXED = Cluster((2, 1), Link(INSIDE), Link(BETWEEN, 0.5), slow={(2, 0): Link(POOR)})


def rates() -> dict[int, set[float]]:
    """The rates of this rank's connections by who is at their other end, after a message on each
    of two groups.
    """
    own.ring_all_reduce(torch.ones(3))
    own.ring_all_reduce(torch.ones(3), dist.new_group())  # whose connections come later
    pids = [0] * 3
    dist.all_gather_object(pids, lab.os.getpid())
    owner, found = lab.peers(dict(enumerate(pids))), {}
    for inode, connection in slow_wires.connections():
        asked = connection.getsockopt(socket.SOL_SOCKET, slow_wires.PACING_RATE, 8)
        (rate,) = struct.unpack("=Q", asked)
        found.setdefault(owner[inode], []).append(rate)
    return found


@LINUX
@pytest.mark.parametrize("network", ["paced", None])
def test_the_kernel_holds_each_connection_of_every_group_to_its_link(network):
    first, second, third = launch.run(rates, cluster=MIXED, network=network)
    between = BETWEEN
    if network is None and launch.run(lambda: lab.here().place.way, cluster=MIXED)[0] != "paced":
        between = slow_wires.UNLIMITED  # the port's bucket holds it
    assert first == {1: [INSIDE] * 2, 2: [between] * 2}
    assert second == {0: [INSIDE] * 2, 2: [between] * 2}
    assert third == {0: [POOR] * 2, 1: [between] * 2}


def pauses(platform: str, size: int) -> list[float]:
    """Of a message from this rank to each other rank in turn, had it slept them."""
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        patch.setattr(slow_wires.time, "sleep", slept.append)
        with lab.held(lab.here().cluster, lab.here().place):
            for sender in range(3):
                for to in {0, 1, 2} - {sender}:
                    if dist.get_rank() == sender:
                        dist.send(torch.ones(size // 4), to)
                    elif dist.get_rank() == to:
                        dist.recv(torch.ones(size // 4), sender)
    return slept


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_latency_is_a_pause_and_where_no_kernel_helps_so_is_bandwidth(platform):
    size = 4000
    links = {rank: [MIXED.link(rank, to) for to in range(3) if to != rank] for rank in range(3)}
    cluster = MIXED if platform == "darwin" else Cluster((2, 1), between=Link(math.inf, 0.5))
    for rank, slept in enumerate(launch.run(nothing_held, 3, pauses, cluster, platform, size)):
        held = [size / link.bandwidth if platform == "darwin" else 0 for link in links[rank]]
        assert slept == pytest.approx(
            [link.latency + h for link, h in zip(links[rank], held, strict=True)]
        )


def nothing_held(then, cluster, *args):
    """Call it on a rank of this cluster, whose links are paced, with nothing held so far."""
    with lab.held(Cluster(cluster.nodes), lab.Place("paced")):
        here = lab.here()._replace(cluster=cluster)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lab, "here", lambda: here)
            return then(*args)


def speeds() -> tuple[float, list[float]]:
    """Seconds that work of 3 takes this rank, and pauses after 2 seconds of processor time."""
    slept: list[float] = []
    ticks = iter([10.0, 12.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.time, "sleep", slept.append)
        patch.setattr(lab.time, "thread_time", lambda: next(ticks, 12.0))
        with lab.here().computing():
            pass
    return lab.here().seconds(3), slept


def test_a_slow_rank_works_longer_by_a_known_factor():
    assert launch.run(speeds, cluster=Cluster((3,), speeds={1: 0.25, 2: 2.0})) == [
        (3, []),
        (12, [6.0]),
        (1.5, []),
    ]


def test_who_dies_is_told_and_nobody_who_ended_before():
    def lives(forever: bool) -> int:
        while forever:
            dist.barrier()
        return dist.get_rank()

    with pytest.raises(launch.RankError, match="rank 1 failed first:\nit was ended by SIGKILL"):
        launch.run(lives, None, True, cluster=Cluster((1, 2), deaths={1: 0.05}))
    assert launch.run(lives, None, False, cluster=Cluster((2,), deaths={1: 1000})) == [0, 1]


def test_torchruns_ranks_are_paced(monkeypatch):
    for name, value in {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    found = launch.run(lambda: lab.here().place, cluster=Cluster((1,), between=Link(1e6)))
    assert found == [("paced", "torchrun started the ranks", ())]


def test_elsewhere_there_is_no_cluster():
    with pytest.raises(RuntimeError, match="outside of"):
        lab.here()
    with pytest.raises(InputError, match="work = -1"):
        lab.Here(MIXED, lab.Place("paced"), 0).seconds(-1)


def test_what_would_be_dropped_is_refused(monkeypatch):
    with pytest.raises(InputError, match="network = 'paced': expected a cluster"):
        launch.run(print, 1, network="paced")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(InputError, match="watch = True: expected False under torchrun"):
        launch.run(print, watch=True)
    with pytest.raises(InputError, match="network = 'namespaces': torchrun started the ranks"):
        launch.run(print, cluster=Cluster((1,)), network="namespaces")
