"""What happens on a cluster when its ranks work off programs of work, messages and waiting.

A program pauses for a link's latency before each message, hands it over and goes on.  A link
carries one message at a time, in order; so does a node's port where it is shared.  A rank that
waits goes on when the message has arrived.  What is added up here comes out of that alone.
"""

import heapq
import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mathlib.checks import InputError, flag, instance, listed
from mathlib.parts import exact_sum
from mathlib.schedule.cluster import Cluster


class Work(NamedTuple):
    """Computes for so long, at speed 1."""

    seconds: float


class Send(NamedTuple):
    """Sends so many bytes, and goes on."""

    to: int
    size: float
    tag: Hashable = None


class Wait(NamedTuple):
    """Goes on when the next message of that rank and tag is there."""

    source: int
    tag: Hashable = None


Program = Sequence[Work | Send | Wait]


class Span(NamedTuple):
    """Something that a rank did for a while; a timeline draws it."""

    what: str
    kind: str  # "compute", "idle", "communication"
    rank: int
    start: float
    end: float
    other: int  # the rank that it waits for or sends to; its own where it computes


@dataclass(frozen=True)
class Run:
    """What came out, of each rank."""

    ends: Sequence[float]  # seconds, when it had done all it could
    worked: Sequence[float]  # seconds
    sent: Sequence[float]  # bytes
    messages: Sequence[int]
    waits_for: dict[int, int]  # for ever, since somebody died or sent nothing: rank, for which
    spans: Sequence[Span] = ()  # where they were asked for
    done: Sequence[Sequence[float]] = ()  # seconds, when each step of its program was done

    @property
    def total(self) -> float:
        """Seconds until the last one ends; infinite if somebody waits for ever."""
        return math.inf if self.waits_for else max(self.ends)

    @property
    def exposed(self) -> list[float]:
        """Seconds of each rank that it did not compute before its end: it paused or waited."""
        return [end - work for end, work in zip(self.ends, self.worked, strict=True)]

    @property
    def idle(self) -> float:
        """Seconds that ranks do not compute, all together, until the last one ends."""
        return len(self.ends) * self.total - exact_sum(self.worked)


def run(
    programs: Sequence[Program],
    cluster: Cluster,
    *,
    shared_ports: bool = False,
    rendezvous: bool = False,
    record: bool = False,
) -> Run:
    """Every rank's program on the cluster: whoever is first in time goes on; a message
    leaves when its link is free and then takes size / bandwidth.

    rendezvous: and when its receiver waits for it, as gloo's does. record: keep what
    each did when.

    Chapter: unequal
    """
    programs = [listed("programs", row) for row in listed("programs", programs)]
    if len(programs) != instance("cluster", cluster, Cluster).ranks:
        raise InputError(f"programs of {len(programs)} ranks: expected {cluster.ranks}")
    for step in {type(step): step for row in programs for step in row}.values():
        if not isinstance(step, (Work, Send, Wait)):
            raise InputError(f"programs = ...{step!r}...: expected Work, Send or Wait")
    clock = _Clock(programs, cluster, flag("shared_ports", shared_ports))
    clock.eager = not flag("rendezvous", rendezvous)
    clock.spans = [] if flag("record", record) else None
    clock.run()
    made = clock.now, clock.worked, clock.sent, clock.messages, clock.blocked
    spans = sorted(clock.spans or (), key=lambda span: span.start)
    return Run(*made, spans, clock.done)


class _Clock:
    """One heap of ranks by their time; each turn is one step of a program."""

    def __init__(self, programs: Sequence[Program], cluster: Cluster, shared: bool):
        n = cluster.ranks
        self.programs, self.cluster, self.shared = programs, cluster, shared
        self.node, self.place = cluster.node_of, [0] * n
        self.now, self.worked, self.sent, self.messages = [0.0] * n, [0.0] * n, [0.0] * n, [0] * n
        self.paused = [False] * n
        self.free: dict[tuple[int, int], float] = {}  # when a link, or (node, -1), is free again
        self.eager = True  # messages leave before their receivers wait
        self.came: dict[tuple, deque[float]] = {}
        self.offered: dict[tuple, deque[float]] = {}  # sizes of those that have not left
        self.waiting: dict[tuple, int] = {}  # rank, by the message
        self.blocked: dict[int, int] = {}
        self.spans: list[Span] | None = None
        self.done: list[list[float]] = [[] for _ in range(n)]

    def run(self) -> None:
        turns = [(0.0, rank) for rank, program in enumerate(self.programs) if program]
        deaths, programs = self.cluster.deaths, self.programs
        while turns:
            now, rank = heapq.heappop(turns)
            step = programs[rank][self.place[rank]]
            if isinstance(step, Send):
                later, woken = self._send(rank, step, now)
                if woken is not None:
                    heapq.heappush(turns, (self.now[woken], woken))
            elif isinstance(step, Wait):
                key = step.source, rank, step.tag
                if self.offered.get(key):
                    self._leave(key, self.offered[key].popleft(), now)
                if not (there := self.came.get(key)):
                    self.waiting[key], self.blocked[rank] = rank, step.source
                    continue
                later = max(now, there.popleft())
                self._waited(rank, step.source, now, later)
                self._pass(rank, later)
            else:
                later = now + step.seconds / self.cluster.speed(rank)
                self.worked[rank] += later - now
                self._keep("compute", "compute", rank, now, later, rank)
                self._pass(rank, later)
            self.now[rank] = later
            if later > deaths.get(rank, math.inf):
                self.now[rank] = deaths[rank]
            elif self.place[rank] < len(programs[rank]):
                heapq.heappush(turns, (later, rank))

    def _send(self, rank: int, step: Send, now: float) -> tuple[float, int | None]:
        """When the sender goes on, and who is woken; a pause is a turn of its own."""
        pause = self.cluster.link(rank, step.to, shared_ports=self.shared).latency
        if pause and not self.paused[rank]:
            self.paused[rank] = True
            return now + pause, None
        self.paused[rank] = False
        self._pass(rank, now)
        self.sent[rank] += step.size
        self.messages[rank] += 1
        key = rank, step.to, step.tag
        if self.eager or key in self.waiting:
            self._leave(key, step.size, now)
            return now, self._wake(key)
        self.offered.setdefault(key, deque()).append(step.size)
        return now, None

    def _leave(self, key: tuple, size: float, now: float) -> None:
        """A message passes its link, and a port that is shared."""
        rank, to, _ = key
        link = self.cluster.link(rank, to, shared_ports=self.shared)
        arrival = self._through((rank, to), size / link.bandwidth, now)
        if self.shared and self.node[rank] != self.node[to]:
            port = self.cluster.port(self.node[rank]).bandwidth
            arrival = max(arrival, self._through((self.node[rank], -1), size / port, now))
        self._keep(f"to rank {to}", "communication", rank, now, arrival, to)
        self.came.setdefault(key, deque()).append(arrival)

    def _pass(self, rank: int, when: float) -> None:
        """A step is done; on to the next."""
        self.place[rank] += 1
        self.done[rank].append(when)

    def _through(self, way: tuple[int, int], seconds: float, now: float) -> float:
        """When a message has passed what carries one at a time."""
        self.free[way] = max(now, self.free.get(way, 0.0)) + seconds
        return self.free[way]

    def _wake(self, key: tuple) -> int | None:
        """Who waited for this message: goes on when it is there."""
        rank = self.waiting.pop(key, None)
        if rank is not None:
            del self.blocked[rank]
            began, self.now[rank] = self.now[rank], max(self.now[rank], self.came[key].popleft())
            self._waited(rank, key[0], began, self.now[rank])
            self._pass(rank, self.now[rank])
            if self.place[rank] == len(self.programs[rank]):
                return None
        return rank

    def _waited(self, rank: int, source: int, start: float, end: float) -> None:
        self._keep(f"waits for rank {source}", "idle", rank, start, end, source)

    def _keep(self, what: str, kind: str, rank: int, start: float, end: float, other: int) -> None:
        if self.spans is not None and end > start:
            self.spans.append(Span(what, kind, rank, start, end, other))
