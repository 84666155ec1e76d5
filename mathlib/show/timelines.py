"""A trace as a picture: what each rank computes, and beneath it what it has on the wire.

Events have `what`, `kind` ("compute", "idle", "communication"), `rank`, `start` and `end` in
seconds; other kinds are not drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mathlib.show import says, svg
from mathlib.show.tables import Shown


class Event(Protocol):
    """What the picture reads of an event."""

    @property
    def what(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


def _lanes(events: Iterable[Event]) -> list[list[Event]]:
    """As few lines as keep events apart that overlap: each goes to the first line that is free."""
    lanes: list[list[Event]] = []
    for event in sorted(events, key=lambda e: e.start):
        free = next((lane for lane in lanes if lane[-1].end <= event.start), None)
        if free is None:
            free = []
            lanes.append(free)
        free.append(event)
    return lanes


def _rank(rank: int, events: Sequence[Event], carries: Mapping[str, str]) -> list[svg.Line]:
    """A rank's lines: its own work, and under it as many wires as it has messages at once."""
    work = [
        ("idle" if e.kind == "idle" else e.what, e.start, e.end, e.what)
        for e in events
        if e.kind in ("compute", "idle")
    ]
    lines: list[svg.Line] = [(f"rank {rank}", work)]
    for place, lane in enumerate(_lanes(e for e in events if e.kind == "communication")):
        name = "also" if place else "under way"
        sent = [(carries.get(e.what, e.kind), e.start, e.end, e.what) for e in lane]
        lines.append((name, sent))
    return lines


def ranks_timeline(
    events: Sequence[Event],
    *,
    title: str,
    carries: Mapping[str, str] | None = None,
    caption: str = "",
    name: str = "",
) -> Shown:
    """A line for each rank's own work, and lines for its messages: two at once where two are in
    flight. `carries` says which role the messages of a name have, if not communication.
    """
    lines = []
    for rank in sorted({e.rank for e in events}):
        lines += _rank(rank, [e for e in events if e.rank == rank], carries or {})
    told = {"title": title, "caption": caption, "name": name}
    drawn = svg.timeline(lines, show=says.time, axis_title="time", **told)
    busy = dict.fromkeys((e.kind for e in events), 0.0)
    for e in events:
        busy[e.kind] += e.end - e.start
    said = ", ".join(f"{kind} {says.time(time)}" for kind, time in busy.items())
    return Shown(drawn, f"{title}. All ranks together: {said}")
