"""Runs a schedule by the clock: when each action begins and ends, and what follows from that.

p stages · m micro_batches · v chunks a stage

Stages work off their lists in order, each action as soon as the stage is free and its input is
there.  A link is one direction from one stage to another; it carries one message at a time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import sub

from mathlib.checks import instance
from mathlib.parts import exact_sum
from mathlib.schedule import weights
from mathlib.schedule.actions import Schedule
from mathlib.schedule.check import refuse_strangers, validate
from mathlib.schedule.times import Times


@dataclass(frozen=True)
class Timeline:
    """What came out: begin and end of every action, and everything that can be read from those."""

    schedule: Schedule
    times: Times
    begins: list[list[float]]  # of each stage's actions, in the order of the schedule
    ends: list[list[float]]

    @cached_property
    def total(self) -> float:
        """Seconds from the first begin to the last end."""
        return max((ends[-1] for ends in self.ends if ends), default=0.0)

    @cached_property
    def busy(self) -> list[float]:
        """Seconds that each stage computes."""
        pairs = zip(self.begins, self.ends, strict=True)
        return [exact_sum(map(sub, ends, begins)) for begins, ends in pairs]

    @property
    def idle(self) -> float:
        """Seconds in which stages do not compute, all of them together."""
        return self.schedule.stages * self.total - exact_sum(self.busy)

    @property
    def bubble_over_ideal(self) -> float:
        """Idle time over working time, all stages together: (p - 1) / m for GPipe and 1F1B."""
        return self.idle / exact_sum(self.busy) if self.total else 0.0

    @property
    def bubble_over_total(self) -> float:
        """Idle time over all time: (p - 1) / (m + p - 1) for GPipe and 1F1B."""
        return self.idle / (self.schedule.stages * self.total) if self.total else 0.0

    @property
    def longest_stage(self) -> float:
        """The most seconds from a stage's own first begin to its own last end.

        What zero-bubble papers measure: when no flush keeps the stages together, the next step
        begins on each stage as soon as that stage is through.
        """
        spans = zip(self.begins, self.ends, strict=True)
        return max((ends[-1] - begins[0] for begins, ends in spans if ends), default=0.0)

    def alive(self, stage: int, *, after_input: float = 1.0) -> list[tuple[float, float]]:
        """(time, micro-batches' worth of activations that a stage holds from then on).

        A chunk counts as its share of the stage.  Held from the begin of F to the end of B or W;
        between I and W only the share `after_input` is.
        """
        held, steps, share = 0.0, [(0.0, 0.0)], self.schedule.stages / self.schedule.model_chunks
        given = {"F": 1.0, "B": -1.0, "I": after_input - 1.0, "W": -after_input}
        clocks = zip(self.begins[stage], self.ends[stage], strict=True)
        for action, (begin, end) in zip(self.schedule.actions[stage], clocks, strict=True):
            held += given[action.kind]
            steps.append((begin if action.kind == "F" else end, held * share))
        return steps

    def peak(self, stage: int, *, after_input: float = 1.0) -> float:
        """The most micro-batches' worth of activations that a stage holds."""
        return max(held for _, held in self.alive(stage, after_input=after_input))

    @cached_property
    def fullest(self) -> float:
        """The most that any stage holds."""
        return max(self.peak(s) for s in range(self.schedule.stages))

    @cached_property
    def messages(self) -> Counter[tuple[int, int]]:
        """Messages from one stage to the other."""
        target = self.schedule.sends_to
        pairs = [(s, target(a)) for s, row in enumerate(self.schedule.actions) for a in row]
        return Counter((s, t) for s, t in pairs if t is not None)

    @property
    def bytes_sent(self) -> float:
        """Bytes of all messages together."""
        return self.times.size * self.messages.total()

    @property
    def versions(self) -> list[int]:
        """Versions of its weights that each stage keeps."""
        return [weights.versions_kept(self.schedule, stage=s) for s in range(self.schedule.stages)]


def simulate(schedule: Schedule, times: Times | None = None) -> Timeline:
    """The timeline of a schedule: an action begins when its stage is free and its
    input is there, at max(end of the stage's action before, arrival).

    Whatever the bubble is, it follows from that.  A list that leaves something out is
    simulated as far as it is written; what waits for ever is refused, with the reason
    of `check.validate`.

    Chapter: pipeline (eq-pipeline-time)
    """
    instance("schedule", schedule, Schedule)
    times = Times() if times is None else instance("times", times, Times)
    refuse_strangers(schedule)
    clock = _Clock(schedule, times)
    clock.run()
    if any(len(a) < len(b) for a, b in zip(clock.ends, schedule.actions, strict=True)):
        validate(schedule)
    return Timeline(schedule, times, clock.begins, clock.ends)


def until_stuck(schedule: Schedule, times: Times | None = None) -> Timeline:
    """The timeline of whatever can be done before the stages wait for each other: of a schedule
    that works, all of it.

    Chapter: pipeline
    """
    instance("schedule", schedule, Schedule)
    times = Times() if times is None else instance("times", times, Times)
    refuse_strangers(schedule)
    clock = _Clock(schedule, times)
    clock.run()
    done = [row[: len(ends)] for row, ends in zip(schedule.actions, clock.ends, strict=True)]
    return Timeline(replace(schedule, actions=done), times, clock.begins, clock.ends)


class _Clock:
    """Every stage's list, worked off as far as inputs have arrived.

    No order between the stages has to be kept: when a message comes depends on its own sender only.
    """

    def __init__(self, schedule: Schedule, times: Times):
        m, n, p = schedule.micro_batches, schedule.model_chunks, schedule.stages
        self.actions, self.chunks, self.times = schedule.actions, n, times
        self.block = m * n
        self.plans = [_plan(took, n, m * n) for took in times.of(schedule)]
        self.place = [schedule.placements[schedule.direction(i)] for i in range(m)]
        # When inputs arrived, below 0: not yet.  Micro-batch i on chunk c has place i n + c; behind
        # m n places of forwards come as many for gradients, and as many for W.
        self.arrived = [-1.0] * (3 * m * n)
        self.arrived[: m * n : n] = [0.0] * m  # the data
        self.waiting: dict[int, int] = {}  # stage, by the place of what it waits for
        self.begins: list[list[float]] = [[] for _ in range(p)]
        self.ends: list[list[float]] = [[] for _ in range(p)]
        self.left: dict[tuple[int, int], float] = {}  # when a link's last message had left
        self.ready = list(range(p))

    def run(self) -> None:
        """Lets every stage go on whenever it can."""
        stages = [self._stage(s) for s in range(len(self.actions))]
        while self.ready:
            next(stages[self.ready.pop()], None)

    def _stage(self, s: int) -> Iterator[None]:
        """Works off the list of stage s; pauses where an input lacks."""
        plan, n, split, links = self.plans[s], self.chunks, 2 * self.block, self.times.links
        arrived, waiting, begins, ends = self.arrived, self.waiting, self.begins[s], self.ends[s]
        now = 0.0
        for kind, i, c in self.actions[s]:
            seconds, takes, makes, target = plan[kind][c]
            x = i * n + c
            came = arrived[x + takes]
            if came < 0:
                waiting[x + takes] = s
                yield
                came = arrived[x + takes]
            if came > now:
                now = came
            begins.append(now)
            now += seconds
            ends.append(now)
            if kind == "I":
                arrived[x + split] = now  # W may follow
            if makes:
                x += makes
                arrived[x] = now
                if links and target is not None:
                    arrived[x], now = self._send(s, self.place[i][target], now)
                if x in waiting:
                    self.ready.append(waiting.pop(x))

    def _send(self, s: int, target: int, now: float) -> tuple[float, float]:
        """When a message arrives, and when its sender goes on."""
        if target == s:
            return now, now
        left = max(now, self.left.get((s, target), 0.0)) + self.times.sending
        self.left[s, target] = left  # the next one leaves behind it
        arrival = left + self.times.message
        return arrival, arrival if self.times.blocking else now


def _plan(took: dict[str, list[float]], n: int, block: int) -> dict[str, list[tuple]]:
    """Of each kind and chunk: its seconds, how far off its input and what it makes are kept, and
    for which chunk that is.
    """
    plan: dict[str, list[tuple]] = {kind: [] for kind in took}
    for c in range(n):
        last = c + 1 == n
        plan["F"].append((took["F"][c], 0, block if last else 1, None if last else c + 1))
        for kind in ("B", "I"):
            plan[kind].append((took[kind][c], block, block - 1 if c else 0, c - 1 if c else None))
        plan["W"].append((took["W"][c], 2 * block, 0, None))
    return plan
