"""What a rank of a cluster knows of it and is held to: its links, its speed, its death.

Inside a run, `lab.here()` says which way the links are held: "namespaces" (the kernel's token
bucket at each node's port, its ranks' messages share it) or "paced" (the kernel, or elsewhere a
pause in the program, holds each connection by itself).  Latency is a pause in the program.
"""

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch.distributed as dist

from mathlib.checks import non_negative
from mathlib.launch import slow_wires
from mathlib.launch.namespaces import Place
from mathlib.schedule.cluster import Cluster, Link

OPEN = Path("/proc/self/fd")  # what this process has open


class Here(NamedTuple):
    """This rank, and the cluster that it is part of."""

    cluster: Cluster
    place: Place
    rank: int

    @property
    def speed(self) -> float:
        return self.cluster.speed(self.rank)

    def seconds(self, work: float) -> float:
        """How long this rank works at what takes others so many seconds; for `Sleep`, say."""
        return non_negative("work", work) / self.speed

    def link(self, to: int) -> Link:
        """What holds a message to another rank besides a port that is shared."""
        return self.cluster.link(self.rank, to, shared_ports=self.place.way == "namespaces")

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """A block that takes 1/speed of the processor time it needs: the rest is slept, so that it
        is known whatever else the machine does.
        """
        began = time.thread_time()
        yield
        if self.speed < 1:
            time.sleep((time.thread_time() - began) * (1 / self.speed - 1))


_here: list[Here] = []  # at most one: a process is one rank


def here() -> Here:
    """This rank of the cluster it runs on."""
    if not _here:
        raise RuntimeError("lab.here() outside of launch.run(fn, cluster=...)")
    return _here[-1]


@contextlib.contextmanager
def held(cluster: Cluster, place: Place) -> Iterator[None]:
    """Hold this rank to its cluster inside the block: begin it on all ranks."""
    rank, pids = dist.get_rank(), [0] * cluster.ranks
    dist.all_gather_object(pids, os.getpid())
    _here.append(Here(cluster, place, rank))
    links = {to: _here[-1].link(to) for to in range(cluster.ranks) if to != rank}
    death = threading.Timer(cluster.deaths.get(rank, math.inf), _die)
    death.daemon = True
    if rank in cluster.deaths:
        death.start()
    try:
        with _slow(links, pids) if set(links.values()) - {Link()} else contextlib.nullcontext():
            yield
    finally:
        death.cancel()
        _here.pop()


def _slow(links: Mapping[int, Link], pids: Sequence[int]) -> slow_wires.Pause:
    """What holds back messages to each rank: the kernel's pacing and a pause, or a pause alone."""
    kernel = sys.platform == "linux"

    def seconds(to: int, size: int) -> float:
        return links[to].latency + (0 if kernel else size / links[to].bandwidth)

    return slow_wires.Pause(seconds, _Pacing(links, pids) if kernel else lambda: None)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Pacing:
    """Called before each message: paces the connections that are new by then."""

    def __init__(self, links: Mapping[int, Link], pids: Sequence[int]):
        self.rates = {to: one.bandwidth for to, one in links.items() if one.bandwidth != math.inf}
        self.pids, self.open = {to: pids[to] for to in self.rates}, 0

    def __call__(self) -> None:
        if not self.rates or (now := sum(1 for _ in OPEN.iterdir())) == self.open:
            return
        owner = peers(self.pids)
        for inode, connection in slow_wires.connections():
            if inode in owner:
                slow_wires.pace(int(self.rates[owner[inode]]), connection)
        self.open = now


def peers(pids: Mapping[int, int]) -> dict[int, int]:
    """Which rank is at the other end of each of this process's connections, by the kernel's tables:
    nobody has to be asked (Linux).
    """
    mine = {ends: inode for inode, ends in _ends(os.getpid()).items()}
    theirs = {rank: _ends(pid) for rank, pid in pids.items()}
    return {
        mine[other, own]: rank
        for rank, ends in theirs.items()
        for own, other in ends.values()
        if (other, own) in mine
    }


def _ends(pid: int) -> dict[int, tuple[str, str]]:
    """Both addresses of each connection of a process, by the number of its socket."""
    sockets, found = set(), dict[int, tuple[str, str]]()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed while we look
            sockets.add(str(entry.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in sockets:
                found[int(words[9])] = words[1], words[2]
    return found
