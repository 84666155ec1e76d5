"""What a rank did and when, recorded now and drawn later; a plot reads nothing but these events.

Clock: seconds of the machine's monotonic clock, the same for all its processes, so ranks of one
machine need no adjusting; `follow` puts ranks of different machines on rank 0's clock.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Event:
    what: str  # "forward", "all-reduce of bucket 2"
    kind: str  # "compute", "communication", or "idle" for waiting inside a compute event
    rank: int
    start: float  # seconds
    end: float  # seconds
    bytes: int = 0  # payload, for communication


class Trace:
    """The events of one rank."""

    def __init__(
        self, rank: int = 0, clock: Callable[[], float] = time.perf_counter, on: bool = True
    ):
        self.rank, self.clock, self.on, self.ahead = rank, clock, on, 0.0
        self.events: list[Event] = []

    def begin(self, what: str, kind: str = "compute", bytes: int = 0) -> Callable[[], None]:
        """Start an event now; call what is returned when it ends, from any thread."""
        if not self.on:
            return lambda: None
        start = self.now()
        return lambda: self.events.append(Event(what, kind, self.rank, start, self.now(), bytes))

    def now(self) -> float:
        """Seconds, by rank 0's clock if this trace follows it."""
        return self.clock() - self.ahead

    @contextlib.contextmanager
    def span(self, what: str, kind: str = "compute", bytes: int = 0) -> Iterator[None]:
        """An event as long as the block."""
        end = self.begin(what, kind, bytes)
        try:
            yield
        finally:
            end()

    def follow(self, group: "ProcessGroup | None" = None, rounds: int = 10) -> float:
        """Measure from now on by the clock of the group's rank 0; returns by how many seconds ours
        is ahead of it.

        Of several questions for the time the quickest tells: rank 0 read its clock in the middle of
        the round trip, give or take half of it (Cristian 1989).
        """
        import torch
        import torch.distributed as dist

        rank, size = dist.get_rank(group), dist.get_world_size(group)
        if not rank:
            for other in range(1, size):
                for _ in range(rounds):
                    dist.recv(torch.zeros(1), group=group, group_src=other)
                    dist.send(
                        torch.tensor([self.clock()], dtype=torch.float64),
                        group=group,
                        group_dst=other,
                    )
            return 0.0
        best, answer = float("inf"), torch.zeros(1, dtype=torch.float64)
        for _ in range(rounds):
            asked = self.clock()
            dist.send(torch.zeros(1), group=group, group_dst=0)
            dist.recv(answer, group=group, group_src=0)
            told = self.clock()
            if told - asked < best:
                best, self.ahead = told - asked, (asked + told) / 2 - answer.item()
        return self.ahead


def merge(ranks: Iterable[list[Event]]) -> list[Event]:
    """The events of all ranks in the order of their starts; the first one starts at 0."""
    events = sorted((event for events in ranks for event in events), key=lambda event: event.start)
    zero = events[0].start if events else 0.0
    return [replace(event, start=event.start - zero, end=event.end - zero) for event in events]


def without_idle(events: Iterable[Event]) -> list[Event]:
    """The same events, idle stretches cut out of the compute around them: a rank that waits does
    not compute.
    """
    events, kept = list(events), []
    for event in events:
        start = event.start
        idle = [(e.start, e.end) for e in events if e.kind == "idle" and e.rank == event.rank]
        for a, b in _union(idle) if event.kind == "compute" else ():
            if a < event.end and start < b:
                if start < a:
                    kept.append(replace(event, start=start, end=a))
                start = b
        if start < event.end:
            kept.append(replace(event, start=start))
    return kept


def hidden(events: list[Event]) -> float:
    """The share of one rank's communication time during which it computed."""
    busy = [(e.start, e.end) for e in without_idle(events) if e.kind == "compute"]
    sending = _union([(e.start, e.end) for e in events if e.kind == "communication"])
    total = sum(end - start for start, end in sending)
    both = sum(
        max(0.0, min(end, e) - max(start, s)) for start, end in sending for s, e in _union(busy)
    )
    return both / total if total else 0.0


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same stretch of time without overlaps."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
