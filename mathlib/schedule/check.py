"""Can processes execute a schedule?  If not, the reason: stage, action, and what it waits for.

A schedule is refused when an action is missing, double or on the wrong stage, and when the stages
would wait for each other in a circle.  Sends either do not block (isend), or block until their
receive is posted.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from mathlib.checks import InputError, instance, whole
from mathlib.schedule.actions import KINDS, Action, Schedule

Task = tuple[str, int, int]  # "F" or "gradient" or "W", micro-batch, chunk: what others wait for


def validate(schedule: Schedule, *, posted: int | None = None) -> None:
    """Refuses a schedule that processes could not execute to its end, and says why.

    Every micro-batch passes every chunk once forward and once backward, whole (B) or in
    parts (I and W); nothing waits for itself.  `posted` None: sends do not block.  Else
    a send blocks until its receive is posted, and every stage keeps the next `posted`
    receives open on each link.

    Chapter: pipeline
    """
    instance("schedule", schedule, Schedule)
    if posted is not None:
        whole("posted", posted)
    _each_once(schedule)
    _Walk(schedule, posted).to_the_end()


def receives_to_post(schedule: Schedule) -> int:
    """The fewest receives that every stage must keep open on each link so that blocking sends end.

    1 is a program that posts its next receive and sends at the same time, as Megatron's
    `send_forward_recv_backward` does.

    Chapter: pipeline
    """
    validate(schedule)
    most = 1
    while True:
        try:
            validate(schedule, posted=most)
        except InputError:
            most += 1
        else:
            return most


def tags_needed(schedule: Schedule) -> bool:
    """Whether some link's messages are taken in a different order than they are sent.

    Then a message must carry a tag that says which it is: gloo and MPI have tags, NCCL has none.

    Chapter: schedules
    """
    validate(schedule)
    turns, sent = _Walk(schedule, posted=1).turns, Counter[tuple[int, int]]()
    for s, actions in enumerate(schedule.actions):
        for action in actions:
            target = schedule.sends_to(action)
            if target is not None:
                if turns[s, _done_by(action)] != sent[s, target]:
                    return True
                sent[s, target] += 1
    return False


def refuse_strangers(schedule: Schedule) -> None:
    """Refuses what is no action of this schedule, and what stands on the wrong stage.

    Chapter: pipeline
    """
    instance("schedule", schedule, Schedule)
    m, ways, chunks = schedule.micro_batches, len(schedule.placements), schedule.model_chunks
    for s, actions in enumerate(schedule.actions):
        own = {
            (d, c)
            for d, row in enumerate(schedule.placements)
            for c in range(chunks)
            if row[c] == s
        }
        allowed = {(kind, *place) for kind in KINDS for place in own}
        if {(kind, i * ways // m, c) for kind, i, c in actions} <= allowed:
            continue
        for action in actions:
            kind, i, c = action
            if kind not in KINDS or not 0 <= i < m or not 0 <= c < chunks:
                _refuse(
                    f"stage {s} has {action}: expected {', '.join(KINDS)}, micro-batches 0 to "
                    f"{m - 1}, chunks 0 to {chunks - 1}"
                )
            if schedule.stage_of(i, c) != s:
                _refuse(f"stage {s} has {action}, which is on stage {schedule.stage_of(i, c)}")


def _each_once(schedule: Schedule) -> None:
    """Refuses what is no action, stands on the wrong stage, is double, or is missing."""
    refuse_strangers(schedule)
    counts = Counter(chain.from_iterable(schedule.actions))
    for (kind, i, c), times in counts.items():
        here = f"stage {schedule.stage_of(i, c)} has {Action(kind, i, c)}"
        if times > 1:
            _refuse(f"{here} {times} times: expected once")
        if kind == "B" and (("I", i, c) in counts or ("W", i, c) in counts):
            _refuse(f"{here}, and I or W of the same: expected either B, or I and W")
    for action in _missing(schedule, counts):
        _refuse(f"stage {schedule.stage_of(*action[1:])} lacks {action}")


def _missing(schedule: Schedule, there: Counter[Action]) -> Iterator[Action]:
    for i in range(schedule.micro_batches):
        for c in range(schedule.model_chunks):
            split = ("I", i, c) in there or ("W", i, c) in there
            for kind in ("F", "I", "W") if split else ("F", "B"):
                if (kind, i, c) not in there:
                    yield Action(kind, i, c)


def _refuse(why: str) -> None:
    raise InputError(f"schedule: {why}")


def _done_by(action: Action) -> Task:
    """What an action makes; a whole backward and I both make the gradient of the input."""
    return ("F" if action.kind == "F" else "W" if action.kind == "W" else "gradient", *action[1:])


class _Walk:
    """Every stage goes through its list as far as it can, until all are through or all wait."""

    def __init__(self, schedule: Schedule, posted: int | None):
        self.schedule, self.posted = schedule, posted
        self.place = [0] * schedule.stages  # the next action of each stage
        self.done: set[Task] = set()
        self.turns = self._receives() if posted else {}  # which receive of its link a message is
        self.taken: Counter[tuple[int, int]] = Counter()  # messages of a link that were used

    def to_the_end(self) -> None:
        """Walks on as long as anybody can, and refuses what is left."""
        moved, lists = True, self.schedule.actions
        while moved:
            moved = False
            for s, actions in enumerate(lists):
                while self.place[s] < len(actions) and not self._sending(s) and not self._lacks(s):
                    self._do(s, actions[self.place[s]])
                    moved = True
        stuck = [s for s, actions in enumerate(lists) if self.place[s] < len(actions)]
        if stuck:
            _refuse(self._circle(stuck[0]))

    def _do(self, s: int, action: Action) -> None:
        self.done.add(_done_by(action))
        self.place[s] += 1
        source = self.schedule.receives_from(action)
        if source is not None:
            self.taken[source, s] += 1

    def _lacks(self, s: int) -> Task | None:
        """What the next action of a stage needs and nobody has done yet."""
        kind, i, c = self.schedule.actions[s][self.place[s]]
        last = c == self.schedule.model_chunks - 1
        needs = {
            "F": [("F", i, c - 1)] if c else [],
            "W": [("gradient", i, c)],
        }.get(kind, [("F", i, c)] + ([] if last else [("gradient", i, c + 1)]))
        return next((task for task in needs if task not in self.done), None)

    def _action(self, task: str, i: int, c: int) -> Action:
        """The action that does a task."""
        if task == "gradient":
            held = self.schedule.actions[self.schedule.stage_of(i, c)]
            task = "I" if Action("I", i, c) in held else "B"
        return Action(task, i, c)

    def _receives(self) -> dict[tuple[int, Task], int]:
        """Of every message, by sender and what made it: its number in the receiver's receives."""
        turns, counts = {}, Counter[tuple[int, int]]()
        for s, actions in enumerate(self.schedule.actions):
            for action in actions:
                source = self.schedule.receives_from(action)
                if source is not None:
                    made = ("F", -1) if action.kind == "F" else ("gradient", 1)
                    task = (made[0], action.micro_batch, action.chunk + made[1])
                    turns[source, task] = counts[source, s]
                    counts[source, s] += 1
        return turns

    def _sending(self, s: int) -> Action | None:
        """The action whose blocking send still holds a stage up: its receive is not yet posted."""
        if self.posted is None or not self.place[s]:
            return None
        action = self.schedule.actions[s][self.place[s] - 1]
        target = self.schedule.sends_to(action)
        if target is None:
            return None
        turn = self.turns[s, _done_by(action)]
        return action if turn >= self.taken[s, target] + self.posted else None

    def _circle(self, s: int) -> str:
        """Who waits for whom, from a stage that is stuck until a stage comes twice."""
        said: list[str] = []
        seen: set[int] = set()
        while s not in seen:
            seen.add(s)
            sent = self._sending(s)
            if sent:
                other = self.schedule.sends_to(sent)
                said.append(f"stage {s} sends what {sent} made until stage {other} receives it")
            else:
                action, task = self.schedule.actions[s][self.place[s]], self._lacks(s)
                assert task, "who is stuck lacks something"
                lacks = self._action(*task)
                other = self.schedule.stage_of(*lacks[1:])
                later = ", later in its own list" if other == s else f" on stage {other}"
                said.append(f"stage {s} waits at {action} for {lacks}{later}")
            assert other is not None
            s = other
        return "the stages wait for each other: " + "; ".join(said)
