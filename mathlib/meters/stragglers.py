"""Who holds the others up, and whether it is a processor or a link.

A rank that waits looks as slow as the one it waits for.  So two things are measured that waiting
does not lengthen: the seconds in which a rank computes, as the program marks them, and for each
connection the seconds in which bytes were in flight, as the kernel counts them (TCP_INFO,
Linux 4.10) without those in which the receiver had no room.
"""

import contextlib
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch.distributed as dist

from mathlib.checks import positive
from mathlib.launch.slow_wires import connections
from mathlib.meters import wire

# Offsets of 64-bit counters in the kernel's struct tcp_info (include/uapi/linux/tcp.h).
BUSY, NO_ROOM = 168, 176  # microseconds
ENOUGH = 2**16  # bytes below which a link's rate is that of its messages' way, not its own


class Carried(NamedTuple):
    """What a link carried."""

    bytes: int
    seconds: float  # in which some of them were in flight

    @property
    def rate(self) -> float:
        return self.bytes / self.seconds if self.seconds else float("inf")


class Straggler(NamedTuple):
    """A processor, or the link to a rank, that takes so many times longer than the median."""

    rank: int
    to: int | None  # None: the processor
    times: float

    def __str__(self) -> str:
        what = "processor" if self.to is None else f"link to rank {self.to}"
        return f"rank {self.rank}'s {what} takes {self.times:.1f} times the median"


@dataclass
class Watch:
    """What a block took, of all ranks once it has ended."""

    clock: Callable[[], float] = time.perf_counter
    own: float = 0.0  # seconds that this rank computed
    computed: list[float] = field(default_factory=list)  # of each rank
    links: dict[tuple[int, int], Carried] = field(default_factory=dict)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Mark what this rank computes: nothing in it may wait for another rank."""
        begin = self.clock()
        yield
        self.own += self.clock() - begin

    def stragglers(self, nodes: Sequence[int] = (), times: float = 1.5) -> list[Straggler]:
        """Whatever takes `times` the median of its kind, the worst first; `nodes`: of each rank, so
        that links inside nodes are compared with each other, and those between with each other.
        """
        positive("times", times)
        found = _beyond({(rank, None): s for rank, s in enumerate(self.computed)}, times)
        node = dict(enumerate(nodes))
        for inside in (True, False):
            kind = {
                (a, b): 1 / one.rate
                for (a, b), one in self.links.items()
                if one.bytes >= ENOUGH and (node.get(a) == node.get(b)) == inside
            }
            found += _beyond(kind, times)
        return sorted(found, key=lambda one: -one.times)


def _beyond(took: Mapping, times: float) -> list[Straggler]:
    """Those far beyond the lower median: of two, one can be slow."""
    usual = statistics.median_low(took.values()) if took else 0.0
    return [
        Straggler(rank, to, seconds / usual)
        for (rank, to), seconds in took.items()
        if usual and seconds >= times * usual
    ]


@contextlib.contextmanager
def watch(clock: Callable[[], float] = time.perf_counter) -> Iterator[Watch]:
    """Measure a block: begin and end it on all ranks."""
    watched = Watch(clock)
    wire.quiet()
    other, before = wire.peers(), _counters()
    yield watched
    wire.settle()
    mine: dict[int, Carried] = {}
    for inode, (sent, busy) in _counters().items():
        if inode in other:
            first, then = before.get(inode, (0, 0))
            old = mine.get(other[inode], Carried(0, 0.0))
            carried = Carried(old.bytes + sent - first, old.seconds + (busy - then) / 1e6)
            mine[other[inode]] = carried
    told: list = [None] * dist.get_world_size()
    dist.all_gather_object(told, (watched.own, mine))
    watched.computed = [own for own, _ in told]
    watched.links = {(a, b): one for a, (_, links) in enumerate(told) for b, one in links.items()}


def _counters() -> dict[int, tuple[int, int]]:
    """Bytes sent and microseconds busy, of each connection since it was opened."""
    sent, found = wire.totals(), {}
    for inode, connection in connections():
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        busy, no_room = (struct.unpack_from("=Q", info, at)[0] for at in (BUSY, NO_ROOM))
        found[inode] = sent.get(inode, 0), busy - no_room
    return found
