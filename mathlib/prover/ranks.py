"""Simulated ranks: programs that take turns in one process, and meet in collectives.

A rank's program is a generator.  It yields what it wants of others, a Request, and gets back what
comes of it.  A collective takes place when every rank of its group asks for one of that group: as
with real libraries the n-th call of one rank meets the n-th of the others, and no name is compared.
"""

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from mathlib.prover.modular import plus

SEND, RECEIVE = "send", "receive"


class Request(NamedTuple):
    """What a rank asks for, and waits for."""

    kind: str  # one of COLLECTIVES, or a message
    group: tuple[int, ...]  # its ranks in their order; of a message, from whom to whom
    payload: Any  # matrices
    what: str  # of which tensor, for people; of a message, its tag


Asks = Generator[Request, Any, Any]  # a program, or a part of one; it may return something


class Stuck(Exception):  # noqa: N818
    """Ranks that wait for each other for ever; says who waits where, and for whom."""


def _sum(payloads: Sequence[Any]) -> list[Any]:
    total = payloads[0]
    for one in payloads[1:]:
        total = plus(total, one)
    return [total] * len(payloads)


def _scattered(payloads: Sequence[Any]) -> list[Any]:
    """Of as many pieces as there are ranks, to each rank the sum of its own."""
    return [_sum(pieces)[0] for pieces in zip(*payloads, strict=True)]


COLLECTIVES = {  # what each rank hands in, in order: what each rank gets
    "all-reduce": _sum,
    "all-gather": lambda payloads: [list(payloads)] * len(payloads),
    "reduce-scatter": _scattered,
    "all-to-all": lambda payloads: [list(row) for row in zip(*payloads, strict=True)],
    "ring shift": lambda payloads: [payloads[i - 1] for i in range(len(payloads))],
}


class Ranks:
    """Runs programs to their end; `results` by rank."""

    def __init__(self, programs: Mapping[int, Asks]):
        self.programs, self.results = dict(programs), dict[int, Any]()
        self.waiting: dict[int, Request] = {}
        self.mail: dict[tuple[tuple[int, ...], str], deque[Any]] = {}

    def run(self) -> dict[int, Any]:
        """What each program returns; raises Stuck."""
        ready: deque[tuple[int, Any]] = deque((rank, None) for rank in self.programs)
        while ready:
            rank, answer = ready.popleft()
            try:
                request = self.programs[rank].send(answer)
            except StopIteration as end:
                self.results[rank] = end.value
                continue
            self.waiting[rank] = request
            for other, answer in self._answers(rank, request):
                del self.waiting[other]
                ready.append((other, answer))
        if self.waiting:
            raise Stuck(self._who_waits())
        return self.results

    def _answers(self, rank: int, request: Request) -> list[tuple[int, Any]]:
        """Who can go on because of this request, and with what."""
        if request.kind == SEND:
            self.mail.setdefault((request.group, request.what), deque()).append(request.payload)
            target = request.group[1]
            there = self.waiting.get(target)
            also = there is not None and there[:2] == (RECEIVE, request.group)
            return [(rank, None)] + (self._answers(target, there) if also and there else [])
        if request.kind == RECEIVE:
            box = self.mail.get((request.group, request.what))
            return [(rank, box.popleft())] if box else []
        calls = [self.waiting.get(member) for member in request.group]
        if any(call is None or not self._joins(call, request) for call in calls):
            return []
        return list(zip(request.group, self._meet(calls), strict=True))

    def _meet(self, calls: Sequence[Any]) -> list[Any]:
        first = calls[0]
        for call in calls:
            if (call.kind, _shape(call)) != (first.kind, _shape(first)):
                other = first.group[calls.index(call)]
                raise Stuck(
                    f"calls that do not match: rank {first.group[0]} is in {_said(first)}"
                    f"{_sized(first)}, rank {other} in {_said(call)}{_sized(call)}"
                )
        return COLLECTIVES[first.kind]([call.payload for call in calls])

    def _who_waits(self) -> str:
        """From the first rank that waits, whom each waits for, until one comes twice or is done."""
        rank, said, seen = min(self.waiting), list[str](), set[int]()
        while rank in self.waiting and rank not in seen:
            seen.add(rank)
            request = self.waiting[rank]
            others = [r for r in request.group if r != rank and not self._stands_with(r, request)]
            said.append(f"rank {rank} waits for rank {others[0]} in {_said(request)}")
            rank = others[0]
        end = "" if rank in seen else f"; rank {rank} is at its end"
        return "; ".join(said) + end

    def _joins(self, call: Request, request: Request) -> bool:
        """Whether two ranks mean the same meeting."""
        messages = {call.kind, request.kind} & {SEND, RECEIVE}
        return call.group == request.group and not messages

    def _stands_with(self, rank: int, request: Request) -> bool:
        there = self.waiting.get(rank)
        return there is not None and self._joins(there, request)


def _shape(call: Request) -> Any:
    """What must agree for a call to take place: sizes of what is summed."""
    if call.kind == "all-reduce":
        return len(call.payload), len(call.payload[0]) if call.payload else 0
    if call.kind == "reduce-scatter":
        return [len(piece) for piece in call.payload]
    return None


def _said(request: Request) -> str:
    if request.kind in (SEND, RECEIVE):
        return f"the message of {request.what}"
    return f"the {request.kind} of {request.what} among ranks {_listed(request.group)}"


def _sized(call: Request) -> str:
    shape = _shape(call)
    return f" ({' x '.join(map(str, shape))})" if isinstance(shape, tuple) else ""


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def alone(kind: str, payload: Any) -> Any:
    """What comes of a collective among one."""
    return COLLECTIVES[kind]([payload])[0]
