"""A schedule by the clock, as a picture: a lane for each stage, a box for each action, and beneath
each lane how many micro-batches' activations the stage holds.

It only reads what `mathlib.schedule.simulate` found.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any

from mathlib.checks import InputError, instance
from mathlib.schedule.actions import Action
from mathlib.schedule.simulate import Timeline
from mathlib.show import says, svg
from mathlib.show.figures import Chart, both, figure_html
from mathlib.show.kit import letters
from mathlib.show.kit.sheet import Sheet, ink, number, place
from mathlib.show.roles import ROLES, Look, look, mixed

LANE, STRIP, GAP = 26, 22, 9  # heights: of boxes, of what is held, between stages
MANY = 400  # actions: more have no hints
IDLE = 0.6  # how strong the colour of waiting is
PALE = 0.22  # what is not there yet, or not followed
WHITE = {"F": 0.5, "B": 0.28, "I": 0.28, "W": 0.35}  # in the boxes of a stage's last chunk
NAMES = {
    "F": "forward",
    "B": "backward",
    "I": "backward for inputs",
    "W": "backward for weights",
}
Bracket = tuple[float, float, str]  # from, to, and what it is called
NOTHING: Look = ("currentColor", "")  # a lane where nobody works; the page shines through


@dataclass(frozen=True)
class Seen:
    """What of a timeline is shown, and how."""

    now: float = math.inf  # a marker; what begins later is pale
    follow: int | None = None  # a micro-batch; all others are pale
    memory: bool = True  # strips of what each stage holds
    after_input: float = 1.0  # share of the activations that waits for W
    until: float = 0.0  # the axis is at least so long: for pictures beside each other
    show: Callable[[float], str] = says.plain
    axis: str = "time"
    brackets: Mapping[str, Sequence[Bracket]] = field(default_factory=dict)  # by heading


@dataclass(frozen=True)
class Frame:
    """Where lanes lie on a sheet, how long a unit of time is, and how high a held micro-batch."""

    left: float
    right: float
    unit: float
    high: float

    def x(self, time: float) -> float:
        return self.left + time * self.unit


def schedule_chart(
    timelines: Timeline | Mapping[str, Timeline],
    *,
    title: str,
    caption: str = "",
    name: str = "",
    **seen: Any,
) -> Chart:
    """One timeline, or several with a heading each, on one scale of time and one of memory.

    `seen`: `now` (a marker; later actions are pale), `follow` (a micro-batch; the others are pale),
    `memory` (False: no strips), `after_input`, `until` (end of the axis), `show`, `axis`,
    `brackets` (beneath the lanes of the timeline with that heading; one alone has the heading "").
    """
    html = schedule_html(timelines, title=title, caption=caption, name=name, **seen)
    told = _named(timelines), Seen(**seen)
    return Chart(html, f"{title}. {_said(*told)}", title, "schedule", *told)


def schedule_html(
    timelines: Timeline | Mapping[str, Timeline],
    *,
    title: str,
    caption: str = "",
    name: str = "",
    **seen: Any,
) -> str:
    """The same as HTML, for an experiment."""
    draw = partial(_sheet, timelines=_named(timelines), title=title, seen=Seen(**seen))
    return figure_html(both(draw), caption, name)


def _named(timelines: Timeline | Mapping[str, Timeline]) -> Mapping[str, Timeline]:
    """Timelines by their headings; one alone has none."""
    if not isinstance(timelines, Mapping):
        return {"": instance("timelines", timelines, Timeline)}
    if not timelines:
        raise InputError("timelines = {}: expected at least one")
    for heading, one in timelines.items():
        instance(f"timelines[{heading!r}]", one, Timeline)
    return timelines


def _sheet(width: float, timelines: Mapping[str, Timeline], title: str, seen: Seen) -> str:
    page = Sheet(width)
    y = page.legend(legend(timelines.values(), seen), page.title(title)) + 2
    frame = _frame(page, timelines.values(), seen)
    for heading, one in timelines.items():
        if heading:
            y = _heading(page, heading, one, seen, y)
        y = _stages(page, one, frame, seen, y)
        y = _brackets(page, seen.brackets.get(heading, ()), frame, y)
    _axis(page, y, frame, seen)
    return page.svg(title, _said(timelines, seen))


def _frame(page: Sheet, timelines: Any, seen: Seen) -> Frame:
    """One scale for all timelines of a sheet."""
    stages = max(one.schedule.stages for one in timelines)
    left = page.wide(_stage(page, stages - 1)) + 9
    peaks = [
        one.peak(s, after_input=seen.after_input)
        for one in timelines
        for s in range(one.schedule.stages)
    ]
    aside = max((page.wide(says.plain(peak), page.small) for peak in peaks), default=0) + 8
    right = page.width - (aside if seen.memory else 0) - 4
    end = max([seen.until, *(one.total for one in timelines)]) or 1
    return Frame(left, right, (right - left) / end, (STRIP - 3) / (max(peaks) or 1))


def _stage(page: Sheet, s: int) -> str:
    return str(s) if page.narrow else f"stage {s}"


# What the colours mean


@cache
def box_look(kind: str, later: float = 0.0) -> Look:
    """The look of an action; `later` is 0 for a stage's first chunk, 1 for its last."""
    colour, hatch = look(NAMES[kind])
    return mixed(colour, 255, later * WHITE[kind]), hatch


def later(timeline: Timeline, s: int) -> Callable[[Action], float]:
    """How light an action of a stage is: by its chunk, or where there are two by its direction."""
    schedule = timeline.schedule
    if len(schedule.placements) > 1:
        return lambda action: float(schedule.direction(action.micro_batch))
    chunks = schedule.chunks_of(s)
    part = {c: turn / max(1, len(chunks) - 1) for turn, c in enumerate(chunks)}
    return lambda action: part[action.chunk]


def legend(timelines: Any, seen: Seen) -> list[tuple[str, Look]]:
    kinds = {a.kind for one in timelines for row in one.schedule.actions for a in row}
    entries = [(NAMES[kind], box_look(kind)) for kind in "FBIW" if kind in kinds]
    if {"B", "I"} <= kinds:  # one colour: both send a gradient back
        entries = [
            ("backward, or its part for inputs" if n == NAMES["B"] else n, k) for n, k in entries
        ]
        entries = [entry for entry in entries if entry[0] != NAMES["I"]]
    if any(len(one.schedule.placements) > 1 for one in timelines):
        entries.append(("lighter: the other direction", box_look("F", 1.0)))
    if any(one.schedule.model_chunks > one.schedule.stages for one in timelines):
        entries.append(("lighter: a later chunk", box_look("F", 1.0)))
    if any(one.times.links for one in timelines):
        entries.append(("message", ROLES["communication"]))
    if any(one.idle > 0 for one in timelines):
        entries.append(("idle", ROLES["idle"]))
    entries.append(("weights change", ROLES["weights"]))
    if seen.memory:
        entries.append(("activations held", ROLES["activations"]))
    return entries


# Lanes


def _heading(page: Sheet, heading: str, one: Timeline, seen: Seen, y: float) -> float:
    """A timeline's name, and beneath it what came out."""
    page.text(0, y + page.size + 4, heading, bold=True)
    y += page.size + 8
    for line in letters.lines(came_out(one, seen), page.width - 4, page.small):
        page.text(0, y + page.small, line, size=page.small, quiet=True)
        y += page.small + 4
    return y + 4


def came_out(one: Timeline, seen: Seen) -> str:
    ideal, total = one.bubble_over_ideal, one.bubble_over_total
    bubble = f"bubble {share(ideal)} of the ideal time, {share(total)} of the total"
    return f"{seen.show(one.total)} in all; {bubble}"


def share(bubble: float) -> str:
    """A bubble to three digits: 37.5%."""
    return f"{says.number(100 * bubble)}%"


def _stages(page: Sheet, one: Timeline, frame: Frame, seen: Seen, y: float) -> float:
    """Every stage of a timeline, the messages between them, and the marker through all."""
    pitch = LANE + GAP + (STRIP if seen.memory else -3)
    top = y + (page.small + 4 if seen.memory or seen.now < math.inf else 0)
    if seen.memory:
        words = "held now" if seen.now < one.total else "most held"
        page.text(
            page.width - 2, y + page.small - 2, words, anchor="end", size=page.small, quiet=True
        )
    for s in range(one.schedule.stages):
        low = top + s * pitch
        _lane(page, one, s, frame, seen, low)
        if seen.memory:
            _strip(page, one, s, frame, seen, low + LANE + STRIP)
    if one.times.links:
        _messages(page, one, frame, seen, top, pitch)
    low = top + one.schedule.stages * pitch - GAP
    if seen.now < one.total:
        _marker(page, frame.x(seen.now), seen.show(seen.now), y, low + 3)
    return low + GAP


def _lane(page: Sheet, one: Timeline, s: int, frame: Frame, seen: Seen, y: float) -> None:
    page.text(0, y + LANE / 2 + 5, _stage(page, s))
    wide = frame.x(one.total) - frame.left
    page.area(f"M{place(frame.left, y)}h{number(wide)}v{LANE}H{number(frame.left)}z", NOTHING, 0.07)
    _idle(page, one, s, frame, seen, y)
    hints = not page.narrow and sum(map(len, one.ends)) <= MANY
    lighter, pale, said = (
        later(one, s),
        dict[str, list[str]](),
        dict[str, list[tuple[float, str]]](),
    )
    for action, begin, end in timed(one, s):
        style = box_look(action.kind, lighter(action))
        x, box = frame.x(begin), (end - begin) * frame.unit
        if begin >= seen.now or seen.follow not in (None, action.micro_batch):
            path = f"M{place(x, y)}h{number(box)}v{LANE}h-{number(box)}z"
            pale.setdefault(style[0], []).append(path)
            continue
        if hints:
            page.rect(x, y, box, LANE, style, f"{action}: {seen.show(begin)} to {seen.show(end)}")
        else:
            page.cell(x, y, box, LANE, style[0])
        if end > seen.now:
            page.frame(x, y, box, LANE, heavy=True)
        word = str(action.micro_batch)
        if page.wide(word, page.small) <= box - 0.5:
            said.setdefault(ink(style[0]), []).append((x + box / 2, word))
    for colour, paths in pale.items():
        page.area("".join(paths), (colour, ""), PALE)
    for colour, words in said.items():
        page.scattered(y + LANE / 2 + 4.5, words, colour)
    for time in updates(one, s):
        if time <= seen.now:
            page.rect(frame.x(time) - 1.5, y - 2, 3, LANE + 4, ROLES["weights"], hatched=False)


def _idle(page: Sheet, one: Timeline, s: int, frame: Frame, seen: Seen, y: float) -> None:
    """Where the stage has nothing to do, as far as the marker."""
    paths = ""
    for begin, end in free(one, s, seen.now):
        wide = (end - begin) * frame.unit
        if wide > 0.05:
            paths += f"M{place(frame.x(begin), y)}h{number(wide)}v{LANE}h-{number(wide)}z"
    if paths:
        page.area(paths, ROLES["idle"], IDLE)


def free(one: Timeline, s: int, now: float) -> Iterator[tuple[float, float]]:
    """When a stage has nothing to do, as far as now."""
    for begin, end in zip([0.0, *one.ends[s]], [*one.begins[s], one.total], strict=True):
        if min(end, now) > begin:
            yield begin, min(end, now)


def timed(one: Timeline, s: int) -> Iterator[tuple[Action, float, float]]:
    return zip(one.schedule.actions[s], one.begins[s], one.ends[s], strict=True)


def updates(one: Timeline, s: int) -> Iterator[float]:
    """When a stage's weights change: all together at the end, or each stage for itself."""
    schedule, back, finished = one.schedule, Counter[int](), 0
    if schedule.weights == "flush":
        done = sum(a.kind in "BW" for row in schedule.actions for a in row)
        if done == schedule.micro_batches * schedule.model_chunks:
            yield one.total
        return
    chunks = len(schedule.chunks_of(s))
    for (kind, i, _), _, end in timed(one, s):
        back[i] += kind in "BW"
        if kind in "BW" and back[i] == chunks:
            finished += 1
            if finished % schedule.accumulate == 0:
                yield end


def _strip(page: Sheet, one: Timeline, s: int, frame: Frame, seen: Seen, base: float) -> None:
    """What a stage holds, over time; beside it the most, or what it is at the marker."""
    steps = one.alive(s, after_input=seen.after_input)
    last = min(seen.now, one.total)
    past = [step for step in steps if step[0] <= last]
    shown = past[-1][1] if seen.now < one.total else max(held for _, held in steps)
    colour = (ROLES["activations"][0], "")
    page.area(_steps(past, last, frame, base), colour)
    if last < one.total:
        rest = [(last, past[-1][1]), *steps[len(past) :]]
        page.area(_steps(rest, one.total, frame, base), colour, 2 * PALE)
    page.line(f"M{place(frame.left, base)}H{number(frame.x(one.total))}", opacity=0.4)
    page.text(page.width - 2, base, says.plain(shown), anchor="end", size=page.small)


def _steps(steps: Sequence[tuple[float, float]], end: float, frame: Frame, base: float) -> str:
    """The path of a line that jumps, closed along its base."""
    path = f"M{place(frame.x(steps[0][0]), base)}"
    for (time, held), (after, _) in pairwise([*steps, (end, 0.0)]):
        if after > time:
            path += f"V{number(base - held * frame.high)}H{number(frame.x(after))}"
    return f"{path}V{number(base)}z"


def _messages(
    page: Sheet, one: Timeline, frame: Frame, seen: Seen, top: float, pitch: float
) -> None:
    """A line for each message, from the end of what made it to its arrival."""
    paths = []
    for s, target, sent, comes in messages(one, seen):
        down = target > s
        a, b = top + s * pitch + LANE * down, top + target * pitch + LANE * (not down)
        paths.append(f"M{place(frame.x(sent), a)}L{place(frame.x(comes), b)}")
    if paths:
        page.line("".join(paths), colour=ROLES["communication"][0], width=1.4)


def messages(one: Timeline, seen: Seen) -> Iterator[tuple[int, int, float, float]]:
    """(stage, the stage it sends to, when it is sent, when it arrives) of what is shown."""
    takes = one.times.message + one.times.sending
    for s in range(one.schedule.stages):
        for action, _, end in timed(one, s):
            target = one.schedule.sends_to(action)
            followed = seen.follow in (None, action.micro_batch)
            if target is not None and end <= seen.now and followed:
                yield s, target, end, end + takes


def _marker(page: Sheet, x: float, words: str, top: float, low: float) -> None:
    """Now, as a line through all lanes with the time above it."""
    page.line(f"M{place(x, top + page.small + 1)}V{number(low)}", width=1.6)
    half = page.wide(words, page.small, True) / 2
    page.text(
        max(x, half), top + page.small - 2, words, anchor="middle", size=page.small, bold=True
    )


def _brackets(page: Sheet, brackets: Sequence[Bracket], frame: Frame, y: float) -> float:
    """Spans of time and what they are called; where the next thing may begin."""
    if not brackets:
        return y
    y -= GAP - 4
    for begin, end, words in brackets:
        left, right = frame.x(begin) + 1.5, frame.x(end) - 1.5
        page.line(f"M{place(left, y)}v5H{number(right)}v-5", width=1.3)
        half = page.wide(words, page.small, True) / 2
        at = min(max((left + right) / 2, half), page.width - half)
        page.text(at, y + 20, words, anchor="middle", size=page.small, bold=True)
    return y + 25 + GAP


def _axis(page: Sheet, y: float, frame: Frame, seen: Seen) -> None:
    """Ticks with their times, and what they count."""
    y -= GAP - 5
    end = (frame.right - frame.left) / frame.unit
    page.line(f"M{place(frame.left, y)}H{number(frame.right)}", opacity=0.5)
    for tick in svg.ticks(0, end, 4 if page.narrow else 8):
        x, words = frame.x(tick), seen.show(tick)
        page.line(f"M{place(x, y)}v5", opacity=0.7)
        half = page.wide(words, page.small) / 2
        at = min(max(x, half), page.width - half)
        page.text(at, y + 18, words, anchor="middle", size=page.small, quiet=True)
    middle = (frame.left + frame.right) / 2
    page.text(middle, y + 35, seen.axis, anchor="middle", size=page.small, quiet=True)


def _said(timelines: Mapping[str, Timeline], seen: Seen) -> str:
    """The picture for those who do not see it."""
    found = []
    for heading, one in timelines.items():
        held = ", ".join(
            says.plain(one.peak(s, after_input=seen.after_input))
            for s in range(one.schedule.stages)
        )
        who = f"{heading}: " if heading else ""
        found.append(f"{who}{came_out(one, seen)}; stages hold at most {held} micro-batches")
    return ". ".join(found) + "."
