"""A trace as a picture: what each rank computes, and beneath it what it has on the wire.

Events have `what`, `kind` ("compute", "idle", "communication"), `rank`, `start` and `end` in
seconds; other kinds are not drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from mathlib.show import says, svg
from mathlib.show.figures import Chart, both, figure_html
from mathlib.show.kit.sheet import Sheet, ink, number, place
from mathlib.show.roles import looks

ROOM = 0.04  # of the time, for a number beside a box


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


def _lanes(events: Iterable[Event], gap: float = 0) -> list[list[Event]]:
    """As few lines as keep events apart that overlap: each goes to the first line that is free,
    and has been for `gap` seconds.
    """
    lanes: list[list[Event]] = []
    for event in sorted(events, key=lambda e: e.start):
        free = next((lane for lane in lanes if lane[-1].end + gap <= event.start), None)
        if free is None:
            free = []
            lanes.append(free)
        free.append(event)
    return lanes


def _rank(
    rank: int, events: Sequence[Event], carries: Mapping[str, str], messages: str = ""
) -> list[svg.Line]:
    """A rank's lines: its own work, and under it as many wires as it has messages at once."""
    work = [
        ("idle" if e.kind == "idle" else e.what, e.start, e.end, e.what)
        for e in events
        if e.kind in ("compute", "idle")
    ]
    lines: list[svg.Line] = [(f"rank {rank}", work)]
    sending = [e for e in events if e.kind == "communication"]
    gap = ROOM * max((e.end for e in sending), default=0) if messages else 0
    for turn, lane in enumerate(_lanes(sending, gap)):
        name = messages or ("also" if turn else "under way")
        sent = [(carries.get(e.what, e.kind), e.start, e.end, e.what) for e in lane]
        lines.append((name, sent))
    return lines


def ranks_timeline(
    events: Sequence[Event],
    *,
    title: str,
    carries: Mapping[str, str] | None = None,
    messages: str = "",
    until: str = "",
    caption: str = "",
    name: str = "",
) -> Chart:
    """A line for each rank's own work, and lines for its messages: two at once where two are in
    flight. `carries` says which role the messages of a name have, if not communication.
    `messages` names their lines, and the last word of each stands in its box; a dotted line
    where a rank's last event of the name `until` ends.
    """
    ranks = {
        rank: [e for e in events if e.rank == rank] for rank in sorted({e.rank for e in events})
    }
    groups = [_rank(rank, own, carries or {}, messages) for rank, own in ranks.items()]
    ends: list[float] = []
    if messages:
        ends = [max((e.end for e in own if e.what == until), default=0) for own in ranks.values()]
        draw = partial(_numbered, groups=groups, ends=ends, title=title, messages=messages)
        drawn = figure_html(both(draw), caption, name)
    else:
        told = {"title": title, "caption": caption, "name": name}
        drawn = svg.timeline(sum(groups, []), show=says.time, axis_title="time", **told)
    busy = dict.fromkeys((e.kind for e in events), 0.0)
    for e in events:
        busy[e.kind] += e.end - e.start
    said = ", ".join(f"{kind} {says.time(time)}" for kind, time in busy.items())
    words = f"{title}. All ranks together: {said}"
    return Chart(drawn, words, title, "timeline", groups, ends, messages)


def _numbered(
    width: float,
    groups: Sequence[Sequence[svg.Line]],
    ends: Sequence[float],
    title: str,
    messages: str,
) -> str:
    """The lines of each rank: its messages named once and numbered, a dotted line at its end."""
    page, lines = Sheet(width), [line for group in groups for line in group]
    styles = looks(role for _, events in lines for role, *_ in events)
    y = page.legend(list(styles.items()), page.title(title)) + 4
    left = 12 + max(page.wide(label) for label, _ in lines)
    end = 1.04 * max(b for _, events in lines for _, _, b, _ in events)  # room for a number
    scale = (width - left - 4) / end
    for group, at in zip(groups, ends, strict=True):
        top = y
        mark = left + at * scale
        if at:  # behind the boxes' numbers
            high = len(group) * (svg.BAR + 5) + 4
            page.line(f"M{place(mark, top - 4)}v{number(high)}", dash="2 3", width=1.6)
        for turn, (label, events) in enumerate(group):
            if turn < 2:  # the first line of messages has the name of all
                page.text(0, y + 17, label)
            for role, a, b, what in events:
                x, wide, look = left + a * scale, (b - a) * scale, styles[role]
                hint = f"{label}, {what}: {says.time(a)} to {says.time(b)}"
                page.rect(x, y, wide, svg.BAR, look, hint)
                if label == messages:
                    _number(page, what.rpartition(" ")[2], x, y, wide, ink(look[0]), mark)
            y += svg.BAR + 5
        y += 8
    said = ". ".join(svg.busy(line, says.time) for line in lines)
    return page.svg(title, f"{said}.", svg.time_axis(page, y, left, end, says.time, "time"))


def _number(
    page: Sheet, word: str, x: float, y: float, wide: float, colour: str, mark: float
) -> None:
    """In its box, in the wider part where the dotted line at `mark` cuts it. Where that is too
    narrow, left of the box, or right of it if the line is in the way.
    """
    end, need = x + wide, page.wide(word, page.small, bold=True) + 2
    parts = [(x, mark), (mark, end)] if x < mark < end else [(x, end)]
    left, right = max(parts, key=lambda part: part[1] - part[0])
    if right - left >= need:
        at, anchor = (left + right) / 2, "middle"
    elif x - 3 - need < mark < end:
        at, anchor, colour = end + 3, "start", ""
    else:
        at, anchor, colour = x - 3, "end", ""
    page.text(at, y + 17, word, anchor=anchor, size=page.small, bold=True, colour=colour)
