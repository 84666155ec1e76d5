"""Ranks: one coroutine each, that take turns in one process; what they did is put on a clock.

What a rank receives depends on no time, since it names whom it receives from.  So programs run
first, and `schedule.events` then says when each of their steps took place, on any cluster: a
message pauses its sender for the latency and goes through its link, one at a time.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mathlib.checks import InputError
from mathlib.prover.ranks import RECEIVE, SEND, Ranks, Request, Stuck
from mathlib.schedule import events
from mathlib.schedule.cluster import Cluster
from mathlib.workshop.steps import Fault, Steps, Unending
from mathlib.workshop.tensor import Live, Tensor, described, held_by

NUMBER = 4  # bytes of a number on the wire
MOST_TURNS = 20_000  # of one rank: more is an endless loop

Program = Callable[..., Coroutine[Any, Any, Any]]


class Ask:
    """A message to be sent or received; nothing happens until it is awaited."""

    def __init__(self, me: "Me", request: Request, said: str):
        self.me, self.request, self.said = me, request, said
        me.idle.append(self)

    def __await__(self) -> Generator[Request, Any, Any]:
        self.me.idle.remove(self)
        me, (kind, (frm, to), payload, tag) = self.me, self.request
        if kind == SEND:
            me.steps.append(events.Send(to, NUMBER * numbers_of(payload), tag))
        else:
            me.steps.append(events.Wait(frm, tag))
        return unpacked((yield self.request))

    def __repr__(self) -> str:
        return self.said


class Me:
    """What a program knows of itself: its rank, how many there are, and how to reach them."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self.live, self.steps = Live(), list[events.Work | events.Send | events.Wait]()
        self.idle = list[Ask]()  # asked for and not awaited

    def send(self, to: int, payload: Any, tag: Any = None) -> Ask:
        """Hand a message over and go on: tensors, numbers, or lists of them."""
        said = f"me.send({to}, ...)"
        self._other(to, said)
        return Ask(self, Request(SEND, (self.rank, to), packed(payload), tag), said)

    def receive(self, frm: int, tag: Any = None) -> Ask:
        """Wait for the next message of that rank (with that tag)."""
        said = f"me.receive({frm})"
        self._other(frm, said)
        return Ask(self, Request(RECEIVE, (frm, self.rank), None, tag), said)

    def compute(self, seconds: float) -> None:
        """Be busy for so long."""
        self.steps.append(events.Work(seconds))

    def _other(self, rank: Any, said: str) -> None:
        if not isinstance(rank, int) or not 0 <= rank < self.size:
            raise InputError(f"{said}: expected a rank, 0 to {self.size - 1}")
        if rank == self.rank:
            raise InputError(f"{said}: a rank has no link to itself")


def packed(payload: Any) -> Any:
    """A message holds a copy that counts on no rank."""
    if isinstance(payload, Tensor):
        return payload.rows, payload.shape
    if isinstance(payload, list):
        return [packed(one) for one in payload]
    if payload is None or isinstance(payload, (int, str)):
        return payload
    said = described(payload)
    raise InputError(f"a message of {said}: expected a tensor, a number, or a list of them")


def unpacked(payload: Any) -> Any:
    """The receiver's own."""
    if isinstance(payload, tuple):
        return Tensor(*payload)
    return [unpacked(one) for one in payload] if isinstance(payload, list) else payload


def numbers_of(payload: Any) -> int:
    """How many a message carries."""
    if isinstance(payload, list):
        return sum(map(numbers_of, payload))
    if isinstance(payload, tuple):
        rows, columns = (1, *payload[1])[-2:]
        return rows * columns
    return int(isinstance(payload, int))


class Span(NamedTuple):
    """What a rank did for some time."""

    what: str  # "computes", "sends", "waits"
    start: float  # seconds
    end: float
    other: int | None = None  # to whom, for whom


class Outcome(NamedTuple):
    """What came of a run."""

    results: list[Any]  # of each rank
    steps: list[list[Any]]  # of each rank: Work, Send, Wait
    peaks: list[int]  # live numbers
    run: events.Run
    cluster: Cluster

    def timeline(self, rank: int) -> list[Span]:
        """What a rank did when; nothing where it took no time."""
        ends = self.run.done[rank]
        spans = zip(self.steps[rank], (0.0, *ends), ends, strict=False)
        return [_span(step, start, end) for step, start, end in spans if end > start]

    @property
    def crossing(self) -> float:
        """Bytes that leave a node."""
        node = self.cluster.node_of
        sent = [
            (r, s) for r, row in enumerate(self.steps) for s in row if isinstance(s, events.Send)
        ]
        return sum(s.size for r, s in sent if node[r] != node[s.to])


def _span(step: Any, start: float, end: float) -> Span:
    if isinstance(step, events.Work):
        return Span("computes", start, end)
    if isinstance(step, events.Send):
        return Span("sends", start, end, step.to)
    return Span("waits", start, end, step.source)


class _Turns:
    """A rank's coroutine, watched: whose numbers are made, and that it comes to an end."""

    def __init__(self, me: Me, coroutine: Coroutine[Any, Any, Any]):
        self.me, self.coroutine, self.turns = me, coroutine, 0
        self.done = Steps(f"rank {me.rank}")

    def send(self, answer: Any) -> Request:
        """Until it asks for something of others."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise Unending(
                f"{self.done.who} has asked {MOST_TURNS:,} times for messages: an endless loop?"
            )
        with held_by(self.me.live), self.done.counted():
            return self.coroutine.send(answer)

    def close(self) -> None:
        """Where others went wrong, it is not waited for."""
        with suppress(Fault), self.done.counted():
            self.coroutine.close()


def run(
    program: Program, cluster: Cluster, inputs: Callable[[Me], Sequence[Any]] = lambda me: ()
) -> Outcome:
    """Every rank's program to its end, with its own inputs; raises Fault."""
    everyone = [Me(rank, cluster.ranks) for rank in range(cluster.ranks)]
    turns = {me.rank: _started(program, me, inputs) for me in everyone}
    ranks = Ranks(turns)  # type: ignore[arg-type]  # a coroutine is sent to as a generator is
    stuck = ""
    try:
        ranks.run()
    except Stuck:
        stuck = who_waits(ranks.waiting)
    finally:
        for one in turns.values():
            one.close()
    for me in everyone:
        if me.idle:
            raise Fault(f"rank {me.rank} calls {me.idle[0]} without await: nothing happens")
    if stuck:
        raise Fault(stuck)
    _refuse_unread(ranks.mail)
    steps = [me.steps for me in everyone]
    done = events.run(steps, cluster, shared_ports=True)
    results = [ranks.results[me.rank] for me in everyone]
    return Outcome(results, steps, [me.live.peak for me in everyone], done, cluster)


def _started(program: Program, me: Me, inputs: Callable[[Me], Sequence[Any]]) -> _Turns:
    """A rank before its first line; it alone holds what it was given."""
    with held_by(me.live), Steps(f"rank {me.rank}").counted():
        coroutine = program(me, *inputs(me))
    if not hasattr(coroutine, "send"):
        raise Fault("program is no coroutine: expected `async def program(me, ...)`")
    return _Turns(me, coroutine)


def who_waits(waiting: Mapping[int, Request]) -> str:
    """From the first rank that waits, whom each waits for, until one comes twice or has ended."""
    rank, said = min(waiting), list[str]()
    seen = set[int]()
    while rank in waiting and rank not in seen:
        seen.add(rank)
        frm, tag = waiting[rank].group[0], waiting[rank].what
        said.append(f"rank {rank} waits for a message {_tagged(tag)}of rank {frm}")
        rank = frm
    end = "and so round in a circle" if rank in seen else f"rank {rank} has ended"
    return f"deadlock: {'; '.join(said)}; {end}"


def _refuse_unread(mail: Mapping[Any, Sequence[Any]]) -> None:
    """On a real wire a message that nobody takes blocks its sender, or meets the next receive."""
    for ((frm, to), tag), box in mail.items():
        if box:
            many = f"{len(box)} messages" if len(box) > 1 else "a message"
            raise Fault(
                f"rank {frm} sends {many} {_tagged(tag)}to rank {to} that rank {to} never receives"
            )


def _tagged(tag: Any) -> str:
    return "" if tag is None else f"{tag!r} "
