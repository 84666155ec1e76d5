"""A trace as a picture: what each rank computes, and beneath it what it has on the wire.

Events have `what`, `kind` ("compute", "idle", "communication"), `rank`, `start` and `end` in
seconds; other kinds are not drawn.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from mathlib import units
from mathlib.show import svg
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
            lanes.append(free := [])
        free.append(event)
    return lanes


def _show(seconds: float) -> str:
    return units.show(seconds, "second", digits=3)


def ranks_timeline(events: Sequence[Event], *, title: str) -> Shown:
    """A line for each rank's own work, and lines for its messages: two at once where two are in
    flight.
    """
    rows = []
    for rank in sorted({e.rank for e in events}):
        own = [e for e in events if e.rank == rank]
        work = [
            (e.what if e.kind == "compute" else "idle", e)
            for e in own
            if e.kind in ("compute", "idle")
        ]
        rows.append((f"rank {rank}", [(role, e.start, e.end, e.what) for role, e in work]))
        for place, lane in enumerate(_lanes(e for e in own if e.kind == "communication")):
            rows.append(
                (
                    f"wire {place + 1}" if place else "wire",
                    [(e.kind, e.start, e.end, e.what) for e in lane],
                )
            )
    drawn = svg.timeline(rows, title=title, show=_show, axis_title="time")
    busy = {e.kind: 0.0 for e in events}
    for e in events:
        busy[e.kind] += e.end - e.start
    said = ", ".join(f"{kind} {_show(time)}" for kind, time in busy.items())
    return Shown(f"<figure>{drawn}</figure>", f"{title}. All ranks together: {said}")
