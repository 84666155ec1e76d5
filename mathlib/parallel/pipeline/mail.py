"""Messages between the stages of a pipeline: activations to the next chunk, gradients to the one
before.

A message is named by the action that takes it, so no order of sending or receiving confuses it.
Sends never block.  The next receives of a rank, in the order in which it needs them, are posted
before the action that runs meanwhile.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib.checks import one_of, whole
from mathlib.meters.trace import Trace
from mathlib.parallel.messages import DONE, TYPES, Message
from mathlib.parallel.pipeline.clocks import VirtualClock
from mathlib.schedule.actions import KINDS, Action, Schedule

STAMP = 8  # bytes of a time that travels with a message
Shape = Callable[[int, int], Sequence[int]]  # of what passes, by micro-batch and the chunk behind


class Sent(NamedTuple):
    taken: int  # place, in the list of who takes it, of the action that does
    work: Message
    buffer: Tensor  # must live until the message is through


class Mail:
    """One rank's messages during a run of a schedule; `ranks` says who is each stage."""

    def __init__(
        self,
        schedule: Schedule,
        stage: int,
        ranks: Sequence[int],
        *,
        posted: int = 1,
        clock: VirtualClock | None = None,
        trace: Trace,
    ):
        self.schedule, self.stage, self.ranks, self.trace = schedule, stage, ranks, trace
        self.posted, self.clock = whole("posted", posted), clock
        self.place = {
            action: number for actions in schedule.actions for number, action in enumerate(actions)
        }

    def open(self, shape: Shape, like: Tensor) -> None:
        """Begin a run: what passes has these shapes, and the type and device of `like`."""
        self.shape, self.like = shape, like
        mine = self.schedule.actions[self.stage]
        self.coming = deque(a for a in mine if self.schedule.receives_from(a) is not None)
        self.receiving: dict[Action, tuple[Message, Tensor]] = {}
        self.here: dict[Action, Tensor] = {}  # from a chunk of this rank to the next
        self.sent: dict[int, list[Sent]] = {stage: [] for stage in range(self.schedule.stages)}
        self._post()

    def _post(self) -> None:
        """Keep the next receives open."""
        while self.coming and len(self.receiving) < self.posted:
            action = self.coming.popleft()
            source = self.schedule.receives_from(action)
            assert source is not None
            stamp = STAMP // self.like.itemsize if self.clock else 0
            buffer = self.like.new_empty(self._numbers(action) + stamp)
            work = dist.irecv(buffer, self.ranks[source], tag=self._tag(action)) or DONE
            self.receiving[action] = work, buffer

    def _numbers(self, action: Action) -> int:
        """What an action's message holds, without the time that may travel behind it."""
        return torch.Size(self._shape(action)).numel()

    def _shape(self, action: Action) -> Sequence[int]:
        """Of an action's message: activations come from the chunk before, gradients from behind."""
        kind, i, c = action
        return self.shape(i, c if kind == "F" else c + 1)

    def _tag(self, taker: Action) -> int:
        """A number of its own for each message of a run, above those of the collectives."""
        number = taker.micro_batch * self.schedule.model_chunks + taker.chunk
        return len(TYPES) + 2 * number + (taker.kind != "F")

    def take(self, action: Action) -> tuple[Tensor | None, float]:
        """What this action works on, from a different chunk, and when it arrived by the clock;
        None if nothing is sent for it.
        """
        if action in self.here:
            return self.here.pop(action), 0.0
        source = self.schedule.receives_from(action)
        if source is None:
            return None, 0.0
        with self.trace.span(f"wait for {action}", "idle"):
            work, buffer = self.receiving.pop(action)
            work.wait()
        self._post()
        self._forget(source, self.place[self._maker(action)])
        size = self._numbers(action)
        time = buffer[size:].clone().view(torch.float64).item() if self.clock else 0.0
        return buffer[:size].view(*self._shape(action)), time

    def send(self, action: Action, made: Tensor | None) -> None:
        """Begin to send what an action made to whoever takes it."""
        taker = self._taker(action)
        if made is None or taker is None:
            return
        to = self.schedule.sends_to(action)
        if to is None:
            self.here[taker] = made
            return
        buffer = made.detach().reshape(-1)
        if self.clock:
            stamp = torch.tensor([self.clock.leave(to)], dtype=torch.float64).view(buffer.dtype)
            buffer = torch.cat([buffer, stamp.to(buffer.device)])
        work = dist.isend(buffer, self.ranks[to], tag=self._tag(taker)) or DONE
        self.sent[to].append(Sent(self.place[taker], work, buffer))

    def _forget(self, stage: int, reached: int) -> None:
        """We heard of a stage's action `reached`: what it and those before it take is through."""
        for sent in self.sent[stage]:
            if sent.taken <= reached:
                sent.work.wait()
        self.sent[stage] = [sent for sent in self.sent[stage] if sent.taken > reached]

    def close(self) -> None:
        """Wait for what is still in flight."""
        for stage in self.sent:
            self._forget(stage, len(self.place))

    def _maker(self, action: Action) -> Action:
        """Whose message an action takes."""
        kind, i, c = action
        return Action("F", i, c - 1) if kind == "F" else self._backward(i, c + 1)

    def _taker(self, action: Action) -> Action | None:
        """Who takes what an action makes; nobody, at the ends of the model and after W."""
        kind, i, c = action
        one_of("kind", kind, KINDS)
        if kind == "F":
            return Action("F", i, c + 1) if c + 1 < self.schedule.model_chunks else None
        return self._backward(i, c - 1) if kind != "W" and c else None

    def _backward(self, i: int, c: int) -> Action:
        """The action that makes a gradient: the whole backward, or its first part."""
        whole_one = Action("B", i, c)
        return whole_one if whole_one in self.place else Action("I", i, c)
